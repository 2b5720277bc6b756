// NaiveElement: decodes one element of a row to double precision. NaiveElement is an independent
// implementation of ggml's formats.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/data_type.h"
#include "kernels/quant_grids.h"

namespace kvd::kernels {

inline double NaiveHalf(const std::uint8_t* at) {
  const int bits = at[0] | at[1] << 8;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

inline std::uint32_t NaiveWord(const std::uint8_t* at) {
  return at[0] + 256u * (at[1] + 256u * (at[2] + 256u * at[3]));
}
inline int NaivePoint(std::uint64_t point, std::size_t i) {
  return static_cast<int>(point >> (8 * i) & 255);
}
// The sign of element i of eight, 1 or -1: seven bits, and the parity of their number as the
// eighth.
inline int NaiveEvenSign(std::uint32_t bits, std::size_t i) {
  int ones = 0;
  for (int k = 0; k < 7; ++k) ones += (bits >> k) % 2 != 0 ? 1 : 0;
  const bool is_negative = i < 7 ? (bits >> i) % 2 != 0 : ones % 2 != 0;
  return is_negative ? -1 : 1;
}

inline constexpr int kNaiveIQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

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
    case DataType::kQ2_K: {
      const std::size_t half = j / 128, l = j % 32, quarter = j % 128 / 32;
      const int q = (b[16 + half * 32 + l] >> (2 * quarter)) % 4, packed = b[j / 16];
      return NaiveHalf(b + 80) * (packed % 16) * q - NaiveHalf(b + 82) * (packed >> 4);
    }
    case DataType::kQ3_K: {
      const std::size_t half = j / 128, l = j % 32, quarter = j % 128 / 32, part = j / 16;
      const int q = (b[32 + half * 32 + l] >> (2 * quarter)) % 4 + (b[l] >> (j / 32)) % 2 * 4 - 4;
      const std::uint8_t* s = b + 96;
      const int low = part < 8 ? s[part] % 16 : s[part - 8] / 16;
      const int high = (s[8 + part % 4] >> (part / 4 * 2)) % 4;
      return NaiveHalf(b + 108) * (low + 16 * high - 32) * q;
    }
    case DataType::kQ4_K:
    case DataType::kQ5_K: {
      // 12 bytes of scales and minima for 8 parts. Byte i < 4: bits 0-5 are the scale of part i,
      // bits 6-7 the high bits of the scale of part i + 4. Bytes 4-7 hold the minima in the same
      // form. Byte 8 + i: low 4 bits of the scale (bits 0-3) and of the minimum (bits 4-7) of part
      // i + 4.
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
    case DataType::kIQ4_NL: return kNaiveIQ4[nibble(2)] * NaiveHalf(b);
    case DataType::kIQ4_XS: {
      const std::size_t part = j / 32, l = j % 32;
      const std::uint8_t byte = b[8 + part * 16 + l % 16];
      const int low = part % 2 == 0 ? b[4 + part / 2] % 16 : b[4 + part / 2] / 16;
      const int high = ((b[2] | b[3] << 8) >> (2 * part)) % 4;
      return NaiveHalf(b) * (low + 16 * high - 32) * kNaiveIQ4[l < 16 ? byte % 16 : byte / 16];
    }
    case DataType::kIQ2_XXS: {
      const std::uint8_t* part = b + 2 + j / 32 * 8;
      const std::size_t i = j % 32 / 8;
      const std::uint32_t word = NaiveWord(part + 4);
      return NaiveHalf(b) * (0.5 + (word >> 28)) * 0.25 * NaivePoint(kIQ2_XXSGrid[part[i]], j % 8) *
             NaiveEvenSign(word >> (7 * i), j % 8);
    }
    case DataType::kIQ2_XS: {
      const std::uint32_t bits = b[2 + j / 8 * 2] + 256u * b[3 + j / 8 * 2];
      const int scale = j / 16 % 2 == 0 ? b[66 + j / 32] % 16 : b[66 + j / 32] / 16;
      return NaiveHalf(b) * (0.5 + scale) * 0.25 * NaivePoint(kIQ2_XSGrid[bits % 512], j % 8) *
             NaiveEvenSign(bits / 512, j % 8);
    }
    case DataType::kIQ2_S: {
      const std::size_t top = (b[66 + j / 32] >> (j % 32 / 8 * 2)) % 4;
      const int scale = j / 16 % 2 == 0 ? b[74 + j / 32] % 16 : b[74 + j / 32] / 16;
      const int sign = (b[34 + j / 8] >> (j % 8)) % 2 == 0 ? 1 : -1;
      return NaiveHalf(b) * (0.5 + scale) * 0.25 *
             NaivePoint(kIQ2_SGrid[b[2 + j / 8] + 256 * top], j % 8) * sign;
    }
    case DataType::kIQ3_XXS: {
      const std::uint32_t word = NaiveWord(b + 66 + j / 32 * 4);
      return NaiveHalf(b) * (0.5 + (word >> 28)) * 0.5 *
             NaivePoint(kIQ3_XXSGrid[b[2 + j / 4]], j % 4) *
             NaiveEvenSign(word >> (j % 32 / 8 * 7), j % 8);
    }
    case DataType::kIQ3_S: {
      const std::size_t top = (b[66 + j / 32] >> (j % 32 / 4)) % 2;
      const int scale = j / 32 % 2 == 0 ? b[106 + j / 64] % 16 : b[106 + j / 64] / 16;
      const int sign = (b[74 + j / 8] >> (j % 8)) % 2 == 0 ? 1 : -1;
      return NaiveHalf(b) * (1 + 2 * scale) *
             NaivePoint(kIQ3_SGrid[b[2 + j / 4] + 256 * top], j % 4) * sign;
    }
    case DataType::kMXFP4: {
      // A sign, two bits of exponent, one of fraction: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
      const int q = nibble(1), exponent = q / 2 % 4, fraction = q % 2;
      const double magnitude =
          exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, exponent - 1);
      return std::ldexp(q < 8 ? magnitude : -magnitude, b[0] - 127);
    }
  }
  return 0;
}

}  // namespace kvd::kernels
