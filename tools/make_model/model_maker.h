// Makes a GGUF model of seeded random weights, which the engine can load, from a ModelShape.
//
// The list of tensors comes from the engine's own description (engine/model/model_format.h), so a
// new architecture needs no list of tensors in make-model. Weights have the standard deviation
// 1/sqrt(in_features), norms are around 1 and biases around 0, so that activations stay in a normal
// range. The same shape and seed give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"
#include "tools/make_model/model_shape.h"

namespace kvd {

struct MakeOptions {
  std::uint32_t part_count = 1;  // files that the tensors are divided into (gguf_parts.h)
  // Matrices are holes in the file and read as zeros, so that a large model takes little room on
  // the disk. The logits of a sparse model are finite, but all equal.
  bool is_sparse = false;
};

struct MadeModel {
  std::vector<std::string> paths;
  std::uint64_t parameter_count = 0;
  std::uint64_t tensor_bytes = 0;
};

// `vocabulary`: a GGUF file whose tokenizer.* entries are copied and whose token count replaces
// shape.vocab; null: the model has no tokenizer ("no_vocab"). Errors: kInvalidArgument (names the
// size that does not fit), kIo, kNoSpace. More than one part: the names of the files are those of
// GgufWriter::WriteParts.
Result<MadeModel> MakeModelFile(const ModelShape& shape, const GgufFile* vocabulary,
                                const std::string& path, const MakeOptions& options = {});
Result<std::vector<std::byte>> MakeModelBytes(const ModelShape& shape,
                                              const GgufFile* vocabulary = nullptr);

}  // namespace kvd
