// The software implementation is Sarwate's algorithm with eight tables, which processes eight bytes
// at a time: kTables[k][b] is the remainder of byte b followed by k zero bytes.
//
// The latency of the crc32 instruction is three times the interval at which it can be issued, so
// the hardware implementation computes three adjacent lanes in parallel. CRC is linear: a table
// advances the CRC state of one lane over the bytes of the next lane, and an exclusive or joins the
// states of the lanes.
#include "base/crc32c.h"

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
constexpr std::size_t kLaneBytes = 1024;

// kLaneShift[k][b] is the CRC state whose byte k is b and whose other bytes are 0, advanced over
// kLaneBytes zero bytes.
using LaneShift = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr LaneShift MakeLaneShift() {
  LaneShift shift = {};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t state = 1u << bit;
    for (std::size_t k = 0; k < kLaneBytes; ++k) {
      state = (state >> 8) ^ kTables[0][state & 0xffu];
    }
    shift[bit / 8][std::size_t{1} << (bit % 8)] = state;
  }
  for (auto& table : shift) {
    for (std::size_t byte = 1; byte < table.size(); ++byte) {
      const std::size_t lowest = byte & (~byte + 1);
      table[byte] = table[lowest] ^ table[byte ^ lowest];
    }
  }
  return shift;
}

constexpr LaneShift kLaneShift = MakeLaneShift();

std::uint32_t ShiftOverLane(std::uint32_t state) {
  return kLaneShift[0][state & 0xffu] ^ kLaneShift[1][(state >> 8) & 0xffu] ^
         kLaneShift[2][(state >> 16) & 0xffu] ^ kLaneShift[3][state >> 24];
}

__attribute__((target("sse4.2"))) std::uint32_t Crc32cHardware(std::uint32_t seed,
                                                               std::span<const std::byte> bytes) {
  std::uint64_t state = ~seed;
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 3 * kLaneBytes; left -= 3 * kLaneBytes, next += 3 * kLaneBytes) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t at = 0; at < kLaneBytes; at += 8) {
      std::uint64_t words[3];
      std::memcpy(&words[0], next + at, 8);
      std::memcpy(&words[1], next + kLaneBytes + at, 8);
      std::memcpy(&words[2], next + 2 * kLaneBytes + at, 8);
      state = __builtin_ia32_crc32di(state, words[0]);
      second = __builtin_ia32_crc32di(second, words[1]);
      third = __builtin_ia32_crc32di(third, words[2]);
    }
    state = ShiftOverLane(static_cast<std::uint32_t>(state)) ^ second;
    state = ShiftOverLane(static_cast<std::uint32_t>(state)) ^ third;
  }
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
