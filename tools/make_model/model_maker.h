// Turns a ModelShape into a GGUF model of seeded random weights that the engine loads.
//
// Which tensors there are comes from the engine's own description (engine/model_tensors.h), so a
// new architecture needs no list here. Weights have deviation 1/sqrt(in_features), norms lie around
// 1, biases around 0: activations stay sane. The same shape and seed give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/gguf_file.h"
#include "shm/error.h"
#include "tools/make_model/model_shape.h"

namespace kvd {

struct MadeModel {
  std::uint64_t parameter_count = 0;
  std::uint64_t tensor_bytes = 0;
};

// `vocabulary`: a GGUF whose tokenizer.* entries are copied and whose token count replaces
// shape.vocab; null: the model has no tokenizer ("no_vocab"). Errors: kInvalidArgument names the
// size that does not fit, kIo, kNoSpace.
Result<MadeModel> MakeModelFile(const ModelShape& shape, const GgufFile* vocabulary,
                                const std::string& path);
Result<std::vector<std::byte>> MakeModelBytes(const ModelShape& shape,
                                              const GgufFile* vocabulary = nullptr);

}  // namespace kvd
