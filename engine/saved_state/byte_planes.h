// Byte planes: the bytes of equal elements sorted by their place in the element, first bytes first.
// Exponents of neighbours are alike and pack well once they lie side by side.
#pragma once

#include <cstddef>

namespace kvd {

// source, destination: byte_count bytes, not overlapping. Bytes behind the last whole element stay
// as they are. REQUIRES: element_bytes is 1 to
// state_file::kPlaneElementBytesMax.
void SplitPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                 std::size_t element_bytes);
// The way back.
void JoinPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                std::size_t element_bytes);

}  // namespace kvd
