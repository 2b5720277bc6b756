// Byte planes: a reordering of equal-sized elements that stores the first bytes of all elements,
// then all second bytes, and so on. Exponents of neighbouring elements are similar and compress
// well when they are adjacent.
#pragma once

#include <cstddef>

namespace kvd {

// Writes the byte planes of `source` to `destination`. `source` and `destination` have byte_count
// bytes each and do not overlap. Bytes after the last whole element are copied unchanged. REQUIRES:
// element_bytes is 1 to state_file::kPlaneElementBytesMax.
void SplitPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                 std::size_t element_bytes);
// The inverse of SplitPlanes.
void JoinPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                std::size_t element_bytes);

}  // namespace kvd
