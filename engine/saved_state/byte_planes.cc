// The compiler vectorizes the loops for elements of two and four bytes. The loops for 34 and 18
// bytes are for blocks of q8_0 and q4_0.
#include "engine/saved_state/byte_planes.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "state_layout/state_layout.h"

namespace kvd {
namespace {

template <std::size_t kBytes>
void SplitFixed(const std::byte* source, std::byte* destination, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kBytes; ++k) destination[k * count + i] = source[i * kBytes + k];
  }
}

template <std::size_t kBytes>
void JoinFixed(const std::byte* source, std::byte* destination, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < kBytes; ++k) destination[i * kBytes + k] = source[k * count + i];
  }
}

}  // namespace

void SplitPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                 std::size_t element_bytes) {
  KVD_ASSERT(element_bytes >= 1 && element_bytes <= state_file::kPlaneElementBytesMax);
  const std::size_t count = byte_count / element_bytes;
  switch (element_bytes) {
    case 1: std::memcpy(destination, source, count); break;
    case 2: SplitFixed<2>(source, destination, count); break;
    case 4: SplitFixed<4>(source, destination, count); break;
    case 18: SplitFixed<18>(source, destination, count); break;
    case 34: SplitFixed<34>(source, destination, count); break;
    default:
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < element_bytes; ++k) {
          destination[k * count + i] = source[i * element_bytes + k];
        }
      }
  }
  const std::size_t whole = count * element_bytes;
  std::copy(source + whole, source + byte_count, destination + whole);
}

void JoinPlanes(const std::byte* source, std::byte* destination, std::size_t byte_count,
                std::size_t element_bytes) {
  KVD_ASSERT(element_bytes >= 1 && element_bytes <= state_file::kPlaneElementBytesMax);
  const std::size_t count = byte_count / element_bytes;
  switch (element_bytes) {
    case 1: std::memcpy(destination, source, count); break;
    case 2: JoinFixed<2>(source, destination, count); break;
    case 4: JoinFixed<4>(source, destination, count); break;
    case 18: JoinFixed<18>(source, destination, count); break;
    case 34: JoinFixed<34>(source, destination, count); break;
    default:
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < element_bytes; ++k) {
          destination[i * element_bytes + k] = source[k * count + i];
        }
      }
  }
  const std::size_t whole = count * element_bytes;
  std::copy(source + whole, source + byte_count, destination + whole);
}

}  // namespace kvd
