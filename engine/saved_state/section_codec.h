// SectionCodec: packs and unpacks the bytes of one section. Only SectionCodec uses lz4.
//
// A codec reuses its buffers, so each thread needs a separate object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "state_layout/state_layout.h"

namespace kvd {

// Byte planes: a reordering of equal-sized elements that stores the first bytes of all elements,
// then all second bytes, and so on. Exponents of neighbouring elements are similar and compress
// well when they are adjacent.

// Writes the byte planes of `source` to `destination`. `source` and `destination` have byte_count
// bytes each and do not overlap. Bytes after the last whole element are copied unchanged. REQUIRES:
// element_bytes is 1 to state_file::kPlaneElementBytesMax.
void SplitPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                 std::size_t element_bytes);
// The inverse of SplitPlanes.
void JoinPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                std::size_t element_bytes);

class SectionCodec {
 public:
  struct Packed {
    state_file::Packing packing = state_file::Packing::kNone;
    std::span<const std::byte> bytes;  // `raw` itself if packing does not make the bytes fewer
  };
  // Packs `raw`, whose elements have element_bytes bytes (1 to kPlaneElementBytesMax). The result
  // is valid until the next call. REQUIRES: raw.size() is 1 to kSectionBytesMax.
  Packed Pack(std::span<const std::byte> raw, std::size_t element_bytes);
  // Returns the raw_bytes unpacked bytes, which are valid until the next call. Errors: kCorrupt
  // (not an LZ4 block, or not of raw_bytes bytes). REQUIRES: raw_bytes and element_bytes as for
  // Pack.
  Result<std::span<const std::byte>> Unpack(std::span<const std::byte> packed,
                                            std::size_t raw_bytes, std::size_t element_bytes);

 private:
  std::vector<std::byte> planes_;
  std::vector<std::byte> bytes_;
};

}  // namespace kvd
