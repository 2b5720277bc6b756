// A block type stores q, where value = d*q (symmetric: the extreme value maps to the extreme q) or
// value = d*q + m (the least value maps to 0, the greatest to the greatest q). K types store such
// pairs for 8 or 16 parts, as integers that are multiplied by one d for the block of 256.
#include "tools/make_model/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"
#include "kernels/quant_blocks.h"
#include "tools/make_model/block_encoders.h"

namespace kvd {
namespace {

using kernels::DataType;
using kernels::F16FromF32;
using kernels::F32FromF16;

float Inverse(float number) { return number == 0.0f ? 0.0f : 1.0f / number; }

// Returns the value with the greatest magnitude, including its sign.
float Extreme(std::span<const float> values) {
  float extreme = 0.0f;
  for (float value : values) {
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  return extreme;
}

// Returns round(number) limited to [low, high], plus `offset`: the unsigned bits that a block
// stores.
std::uint8_t Round(float number, int low, int high, int offset = 0) {
  int rounded = std::clamp(static_cast<int>(std::lround(number)), low, high);
  return static_cast<std::uint8_t>(rounded + offset);
}

std::uint8_t LowNibbles(std::uint8_t low, std::uint8_t high) {
  return static_cast<std::uint8_t>((low & 15) | ((high & 15) << 4));
}

// Encodes a symmetric block with the levels [-half, half): q4_0 (half is 8) and q5_0 (half is 16).
template <class Block>
void EncodeSymmetric(std::span<const float> x, int half, std::array<std::uint8_t, 32>& q,
                     Block& block) {
  block.d = F16FromF32(Extreme(x) / static_cast<float>(-half));
  float inverse = Inverse(F32FromF16(block.d));
  for (std::size_t i = 0; i < 32; ++i) q[i] = Round(x[i] * inverse, -half, half - 1, half);
}

// Encodes a block with a minimum and the levels [0, top]: q4_1 (top is 15) and q5_1 (top is 31).
template <class Block>
void EncodeAffine(std::span<const float> x, int top, std::array<std::uint8_t, 32>& q,
                  Block& block) {
  auto [low, high] = std::ranges::minmax(x);
  block.m = F16FromF32(low);
  block.d = F16FromF32((high - low) / static_cast<float>(top));
  float inverse = Inverse(F32FromF16(block.d));
  float minimum = F32FromF16(block.m);
  for (std::size_t i = 0; i < 32; ++i) q[i] = Round((x[i] - minimum) * inverse, 0, top);
}

template <class Block>
void PackNibbles(const std::array<std::uint8_t, 32>& q, Block& block) {
  for (std::size_t j = 0; j < 16; ++j) block.qs[j] = LowNibbles(q[j], q[16 + j]);
}

template <class Block>
void PackFifthBits(const std::array<std::uint8_t, 32>& q, Block& block) {
  for (std::size_t j = 0; j < 32; ++j) {
    block.qh[j / 8] = static_cast<std::uint8_t>(block.qh[j / 8] | ((q[j] >> 4) << (j % 8)));
  }
}

kernels::BlockQ4_0 EncodeQ4_0(std::span<const float> x) {
  kernels::BlockQ4_0 block = {};
  std::array<std::uint8_t, 32> q;
  EncodeSymmetric(x, 8, q, block);
  PackNibbles(q, block);
  return block;
}

kernels::BlockQ4_1 EncodeQ4_1(std::span<const float> x) {
  kernels::BlockQ4_1 block = {};
  std::array<std::uint8_t, 32> q;
  EncodeAffine(x, 15, q, block);
  PackNibbles(q, block);
  return block;
}

kernels::BlockQ5_0 EncodeQ5_0(std::span<const float> x) {
  kernels::BlockQ5_0 block = {};
  std::array<std::uint8_t, 32> q;
  EncodeSymmetric(x, 16, q, block);
  PackNibbles(q, block);
  PackFifthBits(q, block);
  return block;
}

kernels::BlockQ5_1 EncodeQ5_1(std::span<const float> x) {
  kernels::BlockQ5_1 block = {};
  std::array<std::uint8_t, 32> q;
  EncodeAffine(x, 31, q, block);
  PackNibbles(q, block);
  PackFifthBits(q, block);
  return block;
}

kernels::BlockQ8_0 EncodeQ8_0(std::span<const float> x) {
  kernels::BlockQ8_0 block = {};
  block.d = F16FromF32(std::fabs(Extreme(x)) / 127.0f);
  float inverse = Inverse(F32FromF16(block.d));
  for (std::size_t i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<std::int8_t>(Round(x[i] * inverse, -127, 127));
  }
  return block;
}

// The scales and minima of the parts of q4_K and q5_K, 6 bits each.
struct PartScales {
  std::array<std::uint8_t, 8> scale;
  std::array<std::uint8_t, 8> minimum;
};

void PackPartScales(const PartScales& parts, std::uint8_t (&packed)[12]) {
  for (std::size_t s = 0; s < 4; ++s) {
    packed[s] = static_cast<std::uint8_t>(parts.scale[s] | ((parts.scale[4 + s] >> 4) << 6));
    packed[4 + s] =
        static_cast<std::uint8_t>(parts.minimum[s] | ((parts.minimum[4 + s] >> 4) << 6));
    packed[8 + s] = LowNibbles(parts.scale[4 + s], parts.minimum[4 + s]);
  }
}

// Encodes a block with the levels [0, top]: q4_K (top is 15) and q5_K (top is 31).
template <class Block>
std::array<std::uint8_t, 256> EncodeParts(std::span<const float> x, int top, Block& block) {
  std::array<float, 8> scale, minimum;  // minimum: the distance of a part's least value below 0
  for (std::size_t s = 0; s < 8; ++s) {
    auto [low, high] = std::ranges::minmax(x.subspan(32 * s, 32));
    minimum[s] = std::max(0.0f, -low);
    scale[s] = (std::max(high, 0.0f) + minimum[s]) / static_cast<float>(top);
  }
  block.d = F16FromF32(*std::ranges::max_element(scale) / 63.0f);
  block.dmin = F16FromF32(*std::ranges::max_element(minimum) / 63.0f);
  float d = F32FromF16(block.d), dmin = F32FromF16(block.dmin);
  PartScales parts;
  std::array<std::uint8_t, 256> q;
  for (std::size_t s = 0; s < 8; ++s) {
    parts.scale[s] = Round(scale[s] * Inverse(d), 0, 63);
    parts.minimum[s] = Round(minimum[s] * Inverse(dmin), 0, 63);
    float inverse = Inverse(d * static_cast<float>(parts.scale[s]));
    float below = dmin * static_cast<float>(parts.minimum[s]);
    for (std::size_t j = 0; j < 32; ++j) {
      q[32 * s + j] = Round((x[32 * s + j] + below) * inverse, 0, top);
    }
  }
  PackPartScales(parts, block.scales);
  for (std::size_t s = 0; s < 8; s += 2) {
    for (std::size_t j = 0; j < 32; ++j) {
      block.qs[s * 16 + j] = LowNibbles(q[32 * s + j], q[32 * (s + 1) + j]);
    }
  }
  return q;
}

kernels::BlockQ4_K EncodeQ4_K(std::span<const float> x) {
  kernels::BlockQ4_K block = {};
  EncodeParts(x, 15, block);
  return block;
}

kernels::BlockQ5_K EncodeQ5_K(std::span<const float> x) {
  kernels::BlockQ5_K block = {};
  auto q = EncodeParts(x, 31, block);
  for (std::size_t s = 0; s < 8; ++s) {
    for (std::size_t j = 0; j < 32; ++j) {
      block.qh[j] = static_cast<std::uint8_t>(block.qh[j] | ((q[32 * s + j] >> 4) << s));
    }
  }
  return block;
}

kernels::BlockQ6_K EncodeQ6_K(std::span<const float> x) {
  kernels::BlockQ6_K block = {};
  std::array<float, 16> scale;
  for (std::size_t p = 0; p < 16; ++p) scale[p] = Extreme(x.subspan(16 * p, 16)) / -32.0f;
  block.d = F16FromF32(std::fabs(Extreme(scale)) / 127.0f);
  float d = F32FromF16(block.d);
  std::array<std::uint8_t, 256> q;
  for (std::size_t p = 0; p < 16; ++p) {
    block.scales[p] = static_cast<std::int8_t>(Round(scale[p] * Inverse(d), -127, 127));
    float inverse = Inverse(d * static_cast<float>(block.scales[p]));
    for (std::size_t j = 0; j < 16; ++j) {
      q[16 * p + j] = Round(x[16 * p + j] * inverse, -32, 31, 32);
    }
  }
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t j = 0; j < 32; ++j) {
      auto part = [&](std::size_t s) { return q[128 * h + 32 * s + j]; };
      block.ql[64 * h + j] = LowNibbles(part(0), part(2));
      block.ql[64 * h + 32 + j] = LowNibbles(part(1), part(3));
      block.qh[32 * h + j] = static_cast<std::uint8_t>(
          (part(0) >> 4) | ((part(1) >> 4) << 2) | ((part(2) >> 4) << 4) | ((part(3) >> 4) << 6));
    }
  }
  return block;
}

template <class Encode>
void EncodeBlocks(std::span<const float> values, std::size_t block_elements, Encode encode,
                  std::vector<std::byte>& bytes) {
  std::byte* out = bytes.data();
  for (std::size_t i = 0; i < values.size(); i += block_elements) {
    auto block = encode(values.subspan(i, block_elements));
    std::memcpy(out, &block, sizeof block);
    out += sizeof block;
  }
}

}  // namespace

std::vector<std::byte> Quantize(DataType type, std::span<const float> values) {
  std::vector<std::byte> bytes(kernels::RowBytes(type, values.size()));
  auto encode = [&](auto function) {
    EncodeBlocks(values, kernels::ElementsPerBlock(type), function, bytes);
  };
  switch (type) {
    case DataType::kF32: encode([](std::span<const float> x) { return x[0]; }); break;
    case DataType::kF16: encode([](std::span<const float> x) { return F16FromF32(x[0]); }); break;
    case DataType::kBF16:
      encode([](std::span<const float> x) { return kernels::BF16FromF32(x[0]); });
      break;
    case DataType::kQ4_0: encode(EncodeQ4_0); break;
    case DataType::kQ4_1: encode(EncodeQ4_1); break;
    case DataType::kQ5_0: encode(EncodeQ5_0); break;
    case DataType::kQ5_1: encode(EncodeQ5_1); break;
    case DataType::kQ8_0: encode(EncodeQ8_0); break;
    case DataType::kQ2_K: encode(EncodeQ2_K); break;
    case DataType::kQ3_K: encode(EncodeQ3_K); break;
    case DataType::kQ4_K: encode(EncodeQ4_K); break;
    case DataType::kQ5_K: encode(EncodeQ5_K); break;
    case DataType::kQ6_K: encode(EncodeQ6_K); break;
    case DataType::kIQ2_XXS: encode(EncodeIQ2_XXS); break;
    case DataType::kIQ2_XS: encode(EncodeIQ2_XS); break;
    case DataType::kIQ2_S: encode(EncodeIQ2_S); break;
    case DataType::kIQ3_XXS: encode(EncodeIQ3_XXS); break;
    case DataType::kIQ3_S: encode(EncodeIQ3_S); break;
    case DataType::kIQ4_NL: encode(EncodeIQ4_NL); break;
    case DataType::kIQ4_XS: encode(EncodeIQ4_XS); break;
    case DataType::kMXFP4: encode(EncodeMXFP4); break;
  }
  return bytes;
}

}  // namespace kvd
