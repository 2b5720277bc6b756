// CRC32C (Castagnoli, RFC 3720 appendix B.4), computed with the processor's instruction if
// available.
//
// The functions are pure and may be called on any thread. CRC32C detects accidental damage, not
// deliberate changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace kvd {

// Returns the checksum of `bytes`, continued from `seed`, which is the checksum of the preceding
// bytes or 0: Crc32c(Crc32c(0, a), b) is the checksum of a followed by b.
std::uint32_t Crc32c(std::uint32_t seed, std::span<const std::byte> bytes);

// Returns the checksum of the bytes of one value, continued from `seed`. REQUIRES: T has no
// padding.
template <class T>
  requires std::has_unique_object_representations_v<T>
std::uint32_t Crc32cOf(std::uint32_t seed, const T& value) {
  return Crc32c(seed, std::as_bytes(std::span(&value, 1)));
}

namespace internal {
// Crc32cSoftware is the table-driven implementation of CRC32C, for processors without the
// instruction and for tests.
std::uint32_t Crc32cSoftware(std::uint32_t seed, std::span<const std::byte> bytes);
}  // namespace internal

}  // namespace kvd
