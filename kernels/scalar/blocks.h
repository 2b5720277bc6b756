// The fields of a block of weights (kernels/quant_blocks.h), one value at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/quant_blocks.h"

namespace kvd::kernels::scalar {

template <class Block>
Block BlockAt(const void* source, std::size_t index) {
  Block block;
  std::memcpy(&block, static_cast<const std::byte*>(source) + index * sizeof(Block), sizeof(Block));
  return block;
}

// Returns the nibble of element j of the 32 elements that 16 bytes hold.
inline int Nibble(const std::uint8_t* qs, std::size_t j) {
  return j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
}

inline int Bit(const std::uint8_t* bytes, std::size_t j) { return (bytes[j / 8] >> (j % 8)) & 1; }

// The scale and the minimum of part s of a q4_K or q5_K block.
struct ScaleAndMinimum {
  int scale;
  int minimum;
};
inline ScaleAndMinimum PartOf(const std::uint8_t* scales, std::size_t s) {
  if (s < 4) return {scales[s] & 63, scales[s + 4] & 63};
  return {(scales[s + 4] & 15) | (scales[s - 4] >> 6 << 4),
          (scales[s + 4] >> 4) | (scales[s] >> 6 << 4)};
}

// Element j of part s.
inline int PartElement(const BlockQ4_K& block, std::size_t s, std::size_t j) {
  return (block.qs[s / 2 * 32 + j] >> (s % 2 * 4)) & 15;
}
inline int PartElement(const BlockQ5_K& block, std::size_t s, std::size_t j) {
  const int fifth = (block.qh[j] >> s) & 1;
  return ((block.qs[s / 2 * 32 + j] >> (s % 2 * 4)) & 15) | fifth << 4;
}
inline int PartElement(const BlockQ6_K& block, std::size_t p, std::size_t j) {
  const std::size_t h = p / 4, s = p % 4;
  const int low = (block.ql[64 * h + 32 * (s % 2) + j] >> (s / 2 * 4)) & 15;
  const int high = (block.qh[32 * h + j] >> (2 * s)) & 3;
  return (low | high << 4) - 32;
}

inline int PartElement(const BlockQ2_K& block, std::size_t p, std::size_t j) {
  return (block.qs[p / 4 * 32 + j] >> (2 * (p % 4))) & 3;
}
inline int PartElement(const BlockQ3_K& block, std::size_t p, std::size_t j) {
  const int low = (block.qs[p / 4 * 32 + j] >> (2 * (p % 4))) & 3;
  return (low | ((block.hmask[j] >> p) & 1) << 2) - 4;
}
inline int PartElement(const BlockIQ4_XS& block, std::size_t p, std::size_t j) {
  return kIQ4Values[Nibble(block.qs + 16 * p, j)];
}

// The integer scale of half part i of 16.
inline int HalfScale(const BlockQ2_K& block, std::size_t i) { return block.scales[i] & 15; }
inline int HalfScale(const BlockQ3_K& block, std::size_t i) {
  const int low = (block.scales[i % 8] >> (i / 8 * 4)) & 15;
  const int high = (block.scales[8 + i % 4] >> (2 * (i / 4))) & 3;
  return (low | high << 4) - 32;
}
inline int HalfScale(const BlockQ6_K& block, std::size_t i) { return block.scales[i]; }
// The integer scale of part p of 8.
inline int PartScale(const BlockIQ4_XS& block, std::size_t p) {
  const int low = (block.scales_l[p / 2] >> (p % 2 * 4)) & 15;
  return (low | ((block.scales_h >> (2 * p)) & 3) << 4) - 32;
}

// 2^(e - 128), subnormal for e < 2.
inline float ScaleOf(const BlockMXFP4& block) {
  const std::uint32_t e = block.e;
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

}  // namespace kvd::kernels::scalar
