// The parser of a GGUF file's header: bytes in, validated metadata entries and tensor table out.
//
// Private to gguf_file.cc and its tests. Pure: reads only `window`, keeps views into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/gguf_file.h"
#include "shm/error.h"

namespace kvd {

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  std::uint64_t header_bytes = 0;   // to the end of the tensor table
  std::vector<GgufEntry> entries;   // views into the window
  std::vector<GgufTensor> tensors;  // byte_offset and bytes lie inside the file; data is null
  std::vector<std::uint32_t> entries_by_key;
  std::vector<std::uint32_t> tensors_by_name;
};

// `window` is the file's beginning, `file_bytes` its whole length. Empty when the header reaches
// beyond the window, but not beyond the file: call again with a longer one. Errors as
// GgufFile::Open names them. REQUIRES: window.size() <= file_bytes.
Result<std::optional<GgufHeader>> ParseGgufHeader(std::span<const std::byte> window,
                                                  std::uint64_t file_bytes);

// Bytes of one value of a fixed-size type; 0 for strings, arrays and unknown numbers.
std::size_t GgufTypeBytes(GgufType type);

}  // namespace kvd
