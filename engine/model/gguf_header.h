// The parser of a GGUF file's header. The parser takes bytes and returns validated metadata entries
// and the tensor table.
//
// Only gguf_file.cc and its tests use the parser. The parser reads only the bytes of `window`; its
// results contain views into `window`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"

namespace kvd {

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  std::uint64_t header_bytes = 0;   // from the file's start to the end of the tensor table
  std::vector<GgufEntry> entries;   // views into the window
  std::vector<GgufTensor> tensors;  // byte_offset and bytes lie inside the file; data is null
  std::vector<std::uint32_t> entries_by_key;
  std::vector<std::uint32_t> tensors_by_name;
};

// `window` is the beginning of the file and `file_bytes` the file's length. The result is empty if
// the header ends after the window but within the file; call again with a longer window. Errors: as
// GgufFile::Open. REQUIRES: window.size() <= file_bytes.
Result<std::optional<GgufHeader>> ParseGgufHeader(std::span<const std::byte> window,
                                                  std::uint64_t file_bytes);

// The indices of the tensors, sorted by name. Errors: kCorrupt (two names are equal).
Result<std::vector<std::uint32_t>> SortTensors(const std::vector<GgufTensor>& tensors);

// Bytes of one value of a fixed-size type; 0 for strings, arrays and unknown types.
std::size_t GgufTypeBytes(GgufType type);

}  // namespace kvd
