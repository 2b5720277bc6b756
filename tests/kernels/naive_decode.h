// The value of one element of a row, in double, from the description of each format: ggml's own,
// written a second time.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/data_type.h"

namespace kvd::kernels {

inline double NaiveHalf(const std::uint8_t* at) {
  const int bits = at[0] | at[1] << 8;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

inline double NaiveElement(DataType type, const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* b = row + index / ElementsPerBlock(type) * BytesPerBlock(type);
  const std::size_t j = index % ElementsPerBlock(type);
  const auto nibble = [&](std::size_t at) { return j < 16 ? b[at + j] % 16 : b[at + j - 16] / 16; };
  const auto bit = [&](std::size_t at) { return (b[at + j / 8] >> (j % 8)) % 2; };
  switch (type) {
    case DataType::kF32: {
      float value = 0;
      std::memcpy(&value, b, 4);
      return value;
    }
    case DataType::kF16: return NaiveHalf(b);
    case DataType::kBF16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(b[0] | b[1] << 8) << 16;
      float value = 0;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    case DataType::kQ4_0: return (nibble(2) - 8) * NaiveHalf(b);
    case DataType::kQ4_1: return nibble(4) * NaiveHalf(b) + NaiveHalf(b + 2);
    case DataType::kQ5_0: return (nibble(6) + 16 * bit(2) - 16) * NaiveHalf(b);
    case DataType::kQ5_1: return (nibble(8) + 16 * bit(4)) * NaiveHalf(b) + NaiveHalf(b + 2);
    case DataType::kQ8_0: return static_cast<std::int8_t>(b[2 + j]) * NaiveHalf(b);
    case DataType::kQ4_K:
    case DataType::kQ5_K: {
      // 12 bytes of scales: 4 x (scale low 6, with 2 high bits of part + 4), 4 x the same of
      // minima, 4 x two low nibbles.
      const std::uint8_t* s = b + 4;
      const std::size_t part = j / 32, l = j % 32;
      const int scale = part < 4 ? s[part] % 64 : s[part + 4] % 16 + s[part - 4] / 64 * 16;
      const int minimum = part < 4 ? s[part + 4] % 64 : s[part + 4] / 16 + s[part] / 64 * 16;
      const std::uint8_t* qs = type == DataType::kQ4_K ? b + 16 : b + 48;
      const std::uint8_t byte = qs[part / 2 * 32 + l];
      int q = part % 2 == 0 ? byte % 16 : byte / 16;
      if (type == DataType::kQ5_K) q += (b[16 + l] >> part) % 2 * 16;
      return NaiveHalf(b) * scale * q - NaiveHalf(b + 2) * minimum;
    }
    case DataType::kQ6_K: {
      const std::size_t half = j / 128, l = j % 32, quarter = j % 128 / 32;
      const std::uint8_t low = b[half * 64 + quarter % 2 * 32 + l];
      const int high = (b[128 + half * 32 + l] >> (2 * quarter)) % 4;
      const int q = (quarter < 2 ? low % 16 : low / 16) + 16 * high - 32;
      const auto scale = static_cast<std::int8_t>(b[192 + half * 8 + quarter * 2 + l / 16]);
      return NaiveHalf(b + 208) * scale * q;
    }
  }
  return 0;
}

}  // namespace kvd::kernels
