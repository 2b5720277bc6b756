// CRC32C (Castagnoli, RFC 3720 appendix B.4), with the processor's instruction where it has one.
//
// Pure functions, any thread. Detects damage, not a forger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace kvd {

// The checksum of what `seed` stands for followed by `bytes`: Crc32c(Crc32c(0, a), b) is that of a
// and b together.
std::uint32_t Crc32c(std::uint32_t seed, std::span<const std::byte> bytes);

// The same over the bytes of one value. REQUIRES: T has no padding.
template <class T>
  requires std::has_unique_object_representations_v<T>
std::uint32_t Crc32cOf(std::uint32_t seed, const T& value) {
  return Crc32c(seed, std::as_bytes(std::span(&value, 1)));
}

namespace internal {
// The table-driven form, for processors without the instruction and for tests.
std::uint32_t Crc32cSoftware(std::uint32_t seed, std::span<const std::byte> bytes);
}  // namespace internal

}  // namespace kvd
