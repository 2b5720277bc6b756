// The software form is Sarwate's with eight tables (eight bytes at a time): kTables[k][b] is the
// remainder of byte b followed by k zero bytes.
#include "shm/crc32c.h"

#include <array>
#include <cstring>

namespace kvd {
namespace {

constexpr std::uint32_t kPolynomialReflected = 0x82f63b78u;

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1u) != 0 ? kPolynomialReflected : 0u);
    }
    tables[0][byte] = remainder;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xffu];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t Crc32cHardware(std::uint32_t seed,
                                                               std::span<const std::byte> bytes) {
  std::uint64_t state = ~seed;
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    std::uint64_t word;
    std::memcpy(&word, next, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto state32 = static_cast<std::uint32_t>(state);
  for (; left > 0; --left, ++next) {
    state32 = __builtin_ia32_crc32qi(state32, std::to_integer<unsigned char>(*next));
  }
  return ~state32;
}
#endif

using Function = std::uint32_t (*)(std::uint32_t, std::span<const std::byte>);

Function Choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) return Crc32cHardware;
#endif
  return internal::Crc32cSoftware;
}

}  // namespace

std::uint32_t internal::Crc32cSoftware(std::uint32_t seed, std::span<const std::byte> bytes) {
  std::uint32_t state = ~seed;
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    std::uint32_t low;
    std::uint32_t high;
    std::memcpy(&low, next, 4);
    std::memcpy(&high, next + 4, 4);
    low ^= state;
    state = kTables[7][low & 0xffu] ^ kTables[6][(low >> 8) & 0xffu] ^
            kTables[5][(low >> 16) & 0xffu] ^ kTables[4][low >> 24] ^ kTables[3][high & 0xffu] ^
            kTables[2][(high >> 8) & 0xffu] ^ kTables[1][(high >> 16) & 0xffu] ^
            kTables[0][high >> 24];
  }
  for (; left > 0; --left, ++next) {
    state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(*next)) & 0xffu];
  }
  return ~state;
}

std::uint32_t Crc32c(std::uint32_t seed, std::span<const std::byte> bytes) {
  static const Function function = Choose();
  return function(seed, bytes);
}

}  // namespace kvd
