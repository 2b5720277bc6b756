// Opens a model that is one GGUF file, or several: its parts.
//
// Part 2 of 3 of the model NAME is the file NAME-00002-of-00003.gguf. Each part is a GGUF file with
// the tensors that it names. The metadata of the model are in the first part. Every part has three
// keys: `split.no` (its number, from 0), `split.count` (the number of parts) and
// `split.tensors.count` (the tensors of all parts together). The keys and names are those of
// llama.cpp.
//
// The functions of this header keep no state. A model in several files is opened as one GgufFile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"

namespace kvd {

inline constexpr std::uint32_t kPartCountMax = 65535;  // split.count is a u16

// What the name of a file says about its place in a model.
struct PartName {
  std::string base;          // the path up to the last "-" before the number
  std::uint32_t number = 0;  // 1 to count
  std::uint32_t count = 0;   // 1 to kPartCountMax

  // The path of another part of the same model. REQUIRES: other is 1 to count.
  std::string PathOf(std::uint32_t other) const;
};

// Empty if the name has not the form of a part's name.
std::optional<PartName> ParsePartName(const std::string& path);

// The paths that OpenModelFile may open for this path: those of all parts, or `path` alone.
std::vector<std::string> ModelPaths(const std::string& path);

// Opens the model file `path`, with all other parts if it is the first of several. Every part is
// validated as by GgufFile::Open. A model with one part may have any name. Errors: those of
// GgufFile::Open, naming the part; kNotFound (names every missing part); kInvalidArgument (`path`
// is not the first part, or has not the name of a part); kCorrupt (the part's name, keys or tensors
// show that it belongs to another place or to another model).
Result<GgufFile> OpenModelFile(const std::string& path);

}  // namespace kvd
