// DecodeRow and EncodeRow, written directly from the formats of kernels/quant_blocks.h.
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/quant_blocks.h"
#include "kernels/quant_grids.h"
#include "kernels/scalar/blocks.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

void Decode(const BlockQ4_0& block, float* y) {
  const float d = F32FromF16(block.d);
  for (std::size_t j = 0; j < 32; ++j) y[j] = static_cast<float>(Nibble(block.qs, j) - 8) * d;
}

void Decode(const BlockQ4_1& block, float* y) {
  const float d = F32FromF16(block.d), m = F32FromF16(block.m);
  for (std::size_t j = 0; j < 32; ++j) {
    y[j] = std::fma(static_cast<float>(Nibble(block.qs, j)), d, m);
  }
}

void Decode(const BlockQ5_0& block, float* y) {
  const float d = F32FromF16(block.d);
  for (std::size_t j = 0; j < 32; ++j) {
    y[j] = static_cast<float>(Nibble(block.qs, j) + 16 * Bit(block.qh, j) - 16) * d;
  }
}

void Decode(const BlockQ5_1& block, float* y) {
  const float d = F32FromF16(block.d), m = F32FromF16(block.m);
  for (std::size_t j = 0; j < 32; ++j) {
    y[j] = std::fma(static_cast<float>(Nibble(block.qs, j) + 16 * Bit(block.qh, j)), d, m);
  }
}

void Decode(const BlockQ8_0& block, float* y) {
  const float d = F32FromF16(block.d);
  for (std::size_t j = 0; j < 32; ++j) y[j] = static_cast<float>(block.qs[j]) * d;
}

void Decode(const BlockQ4_K& block, float* y) {
  const float d = F32FromF16(block.d), dmin = F32FromF16(block.dmin);
  for (std::size_t s = 0; s < 8; ++s) {
    const ScaleAndMinimum part = PartOf(block.scales, s);
    const float scale = d * static_cast<float>(part.scale);
    const float minimum = dmin * static_cast<float>(part.minimum);
    for (std::size_t j = 0; j < 32; ++j) {
      y[32 * s + j] = std::fma(static_cast<float>(PartElement(block, s, j)), scale, -minimum);
    }
  }
}

void Decode(const BlockQ5_K& block, float* y) {
  const float d = F32FromF16(block.d), dmin = F32FromF16(block.dmin);
  for (std::size_t s = 0; s < 8; ++s) {
    const ScaleAndMinimum part = PartOf(block.scales, s);
    const float scale = d * static_cast<float>(part.scale);
    const float minimum = dmin * static_cast<float>(part.minimum);
    for (std::size_t j = 0; j < 32; ++j) {
      y[32 * s + j] = std::fma(static_cast<float>(PartElement(block, s, j)), scale, -minimum);
    }
  }
}

void Decode(const BlockQ2_K& block, float* y) {
  const float d = F32FromF16(block.d), dmin = F32FromF16(block.dmin);
  for (std::size_t j = 0; j < 256; ++j) {
    const std::size_t i = j / 16;
    const float scale = d * static_cast<float>(HalfScale(block, i));
    const float minimum = dmin * static_cast<float>(block.scales[i] >> 4);
    y[j] = std::fma(static_cast<float>(PartElement(block, j / 32, j % 32)), scale, -minimum);
  }
}

// q3_K and q6_K.
template <class Block>
void Decode(const Block& block, float* y) {
  const float d = F32FromF16(block.d);
  for (std::size_t j = 0; j < 256; ++j) {
    const float scale = d * static_cast<float>(HalfScale(block, j / 16));
    y[j] = static_cast<float>(PartElement(block, j / 32, j % 32)) * scale;
  }
}

void Decode(const BlockIQ4_NL& block, float* y) {
  const float d = F32FromF16(block.d);
  for (std::size_t j = 0; j < 32; ++j) y[j] = kIQ4Values[Nibble(block.qs, j)] * d;
}

void Decode(const BlockIQ4_XS& block, float* y) {
  const float d = F32FromF16(block.d);
  for (std::size_t j = 0; j < 256; ++j) {
    const float scale = d * static_cast<float>(PartScale(block, j / 32));
    y[j] = static_cast<float>(PartElement(block, j / 32, j % 32)) * scale;
  }
}

void Decode(const BlockMXFP4& block, float* y) {
  const float d = ScaleOf(block);
  for (std::size_t j = 0; j < 32; ++j) y[j] = kMXFP4Values[Nibble(block.qs, j)] * d;
}

void DecodeInGrid(DataType type, const void* source, float* destination,
                  std::size_t element_count) {
  for (std::size_t b = 0; b < element_count / 256; ++b, destination += 256) {
    GridBlock block;
    UnpackGridBlock(type, static_cast<const std::byte*>(source) + b * BytesPerBlock(type), &block);
    for (std::size_t j = 0; j < 256; ++j) {
      const std::size_t half = j / 16;
      const float scale = block.scale * static_cast<float>(block.half_scales[half]);
      destination[j] = static_cast<float>(block.q[j]) * scale;
    }
  }
}

template <class Block, std::size_t kElements>
void DecodeBlocks(const void* source, float* destination, std::size_t element_count) {
  for (std::size_t b = 0; b < element_count / kElements; ++b) {
    Decode(BlockAt<Block>(source, b), destination + b * kElements);
  }
}

// ggml's quantize_row_q8_0_ref: d = max |x| / 127, q = round(x / d), halves away from zero, with 1
// / d rounded once. A block with a value that is not finite gets d = NaN and zeros. If 1 / d
// overflows, d is zero in f16 anyway.
bool EncodeQ8_0(const float* x, void* destination) {
  BlockQ8_0 block = {};
  bool finite = true;
  float magnitude = 0.0f;
  for (std::size_t j = 0; j < 32; ++j) {
    finite &= IsFinite(x[j]);
    if (std::fabs(x[j]) > magnitude) magnitude = std::fabs(x[j]);
  }
  if (finite) {
    const float d = magnitude / 127.0f;
    const float inverse = d < 0x1p-126f ? 0.0f : 1.0f / d;
    block.d = F16FromF32(d);
    for (std::size_t j = 0; j < 32; ++j) {
      block.qs[j] = static_cast<std::int8_t>(std::round(x[j] * inverse));
    }
    finite = IsFinite(F32FromF16(block.d));
  } else {
    block.d = 0x7e00;
  }
  std::memcpy(destination, &block, sizeof block);
  return finite;
}

// ggml's quantize_row_q4_0_ref: d is the first number of the largest magnitude, divided by -8; q =
// the whole part of x / d + 8.5, at most 15. Numbers that are not finite and a small d are handled
// as in EncodeQ8_0.
bool EncodeQ4_0(const float* x, void* destination) {
  BlockQ4_0 block = {.d = 0x7e00, .qs = {}};
  std::memset(block.qs, 0x88, sizeof block.qs);
  bool finite = true;
  float extreme = 0.0f;
  for (std::size_t j = 0; j < 32; ++j) {
    finite &= IsFinite(x[j]);
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  }
  if (finite) {
    const float d = extreme / -8.0f;
    const float inverse = std::fabs(d) < 0x1p-126f ? 0.0f : 1.0f / d;
    const auto level = [&](float value) {
      const int whole = static_cast<int>(value * inverse + 8.5f);
      return whole < 15 ? whole : 15;
    };
    block.d = F16FromF32(d);
    for (std::size_t j = 0; j < 16; ++j) {
      block.qs[j] = static_cast<std::uint8_t>(level(x[j]) | level(x[16 + j]) << 4);
    }
    finite = IsFinite(F32FromF16(block.d));
  }
  std::memcpy(destination, &block, sizeof block);
  return finite;
}

}  // namespace

void DecodeRow(DataType type, const void* source, float* destination, std::size_t element_count) {
  switch (type) {
    case DataType::kF32:
      if (element_count != 0) std::memcpy(destination, source, element_count * sizeof(float));
      return;
    case DataType::kF16:
      for (std::size_t j = 0; j < element_count; ++j) {
        destination[j] = F32FromF16(BlockAt<std::uint16_t>(source, j));
      }
      return;
    case DataType::kBF16:
      for (std::size_t j = 0; j < element_count; ++j) {
        destination[j] = F32FromBF16(BlockAt<std::uint16_t>(source, j));
      }
      return;
    case DataType::kQ4_0: return DecodeBlocks<BlockQ4_0, 32>(source, destination, element_count);
    case DataType::kQ4_1: return DecodeBlocks<BlockQ4_1, 32>(source, destination, element_count);
    case DataType::kQ5_0: return DecodeBlocks<BlockQ5_0, 32>(source, destination, element_count);
    case DataType::kQ5_1: return DecodeBlocks<BlockQ5_1, 32>(source, destination, element_count);
    case DataType::kQ8_0: return DecodeBlocks<BlockQ8_0, 32>(source, destination, element_count);
    case DataType::kQ2_K: return DecodeBlocks<BlockQ2_K, 256>(source, destination, element_count);
    case DataType::kQ3_K: return DecodeBlocks<BlockQ3_K, 256>(source, destination, element_count);
    case DataType::kQ4_K: return DecodeBlocks<BlockQ4_K, 256>(source, destination, element_count);
    case DataType::kQ5_K: return DecodeBlocks<BlockQ5_K, 256>(source, destination, element_count);
    case DataType::kQ6_K: return DecodeBlocks<BlockQ6_K, 256>(source, destination, element_count);
    case DataType::kIQ4_NL:
      return DecodeBlocks<BlockIQ4_NL, 32>(source, destination, element_count);
    case DataType::kIQ4_XS:
      return DecodeBlocks<BlockIQ4_XS, 256>(source, destination, element_count);
    case DataType::kMXFP4: return DecodeBlocks<BlockMXFP4, 32>(source, destination, element_count);
    case DataType::kIQ2_XXS:
    case DataType::kIQ2_XS:
    case DataType::kIQ2_S:
    case DataType::kIQ3_XXS:
    case DataType::kIQ3_S: return DecodeInGrid(type, source, destination, element_count);
  }
}

bool EncodeRow(DataType type, const float* source, void* destination, std::size_t element_count) {
  auto* bytes = static_cast<std::byte*>(destination);
  bool finite = true;
  if (type == DataType::kF32) {
    if (element_count != 0) std::memcpy(destination, source, element_count * sizeof(float));
    return AllFinite(source, element_count);
  }
  if (type == DataType::kQ8_0) {
    for (std::size_t b = 0; b < element_count / 32; ++b) {
      finite &= EncodeQ8_0(source + 32 * b, bytes + sizeof(BlockQ8_0) * b);
    }
    return finite;
  }
  if (type == DataType::kQ4_0) {
    for (std::size_t b = 0; b < element_count / 32; ++b) {
      finite &= EncodeQ4_0(source + 32 * b, bytes + sizeof(BlockQ4_0) * b);
    }
    return finite;
  }
  if (type != DataType::kF16 && type != DataType::kBF16) return false;
  for (std::size_t j = 0; j < element_count; ++j) {
    const bool f16 = type == DataType::kF16;
    const std::uint16_t half = f16 ? F16FromF32(source[j]) : BF16FromF32(source[j]);
    finite &= IsFinite(f16 ? F32FromF16(half) : F32FromBF16(half));
    std::memcpy(bytes + 2 * j, &half, sizeof half);
  }
  return finite;
}

}  // namespace kvd::kernels::scalar
