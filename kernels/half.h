// Conversions between f32 and the two 16-bit floats, one value at a time and without special
// instructions.
//
// Conversions to 16 bits round to nearest, ties to even. A value that is too large for 16 bits
// becomes infinity. A NaN becomes a quiet NaN with its top payload bits, as with F16C. Do not
// include this header in files with special -m flags: the functions of this header are inline.
#pragma once

#include <bit>
#include <cstdint>

namespace kvd::kernels {

constexpr std::uint32_t kF32ExponentMask = 0x7f800000u;

constexpr bool IsFinite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kF32ExponentMask) != kF32ExponentMask;
}

constexpr float F32FromF16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const std::uint32_t quiet = fraction == 0 ? 0 : 0x00400000u;
    return std::bit_cast<float>(sign | kF32ExponentMask | quiet | (fraction << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

constexpr std::uint16_t F16FromF32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > kF32ExponentMask) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and above, including infinity
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal in f16; the carry may reach infinity
    const std::uint32_t rebiased = magnitude - (112u << 23);
    half = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;
  } else {  // subnormal in f16: adding 0.5 leaves round(|value| * 2^24) in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  }
  return static_cast<std::uint16_t>(sign | half);
}

constexpr float F32FromBF16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

constexpr std::uint16_t BF16FromF32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > kF32ExponentMask) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kvd::kernels
