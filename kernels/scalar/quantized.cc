// Rows quantised to int8, and their products with quantised weights, as the numeric form defines
// them.
#include "kernels/scalar/dot.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/half.h"
#include "kernels/quant_grids.h"
#include "kernels/scalar/blocks.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

// Block b of a row: its exact sum of products with x, and the factors of that sum.
struct BlockProduct {
  std::int32_t sum = 0;
  float scale = 0.0f;
  bool has_minimum = false;
  float minimum = 0.0f;
  bool has_first = false;
  float first = 0.0f;  // of the first half's minimum, what it adds to the second's
};

template <class Element>
std::int32_t Sum(const std::int8_t* x, std::size_t first, std::size_t last,
                 const Element& element) {
  std::int32_t sum = 0;
  for (std::size_t j = first; j < last; ++j) sum += x[j] * element(j);
  return sum;
}

template <class Block>
BlockProduct ProductWithPart(const void* weights, std::size_t b, const std::int8_t* x) {
  const auto block = BlockAt<Block>(weights, b / 8);
  const std::size_t s = b % 8;
  const ScaleAndMinimum part = PartOf(block.scales, s);
  const auto element = [&](std::size_t j) { return PartElement(block, s, j); };
  return {Sum(x, 0, 32, element), F32FromF16(block.d) * static_cast<float>(part.scale), true,
          -(F32FromF16(block.dmin) * static_cast<float>(part.minimum))};
}

// Types with an integer scale for each half of a block.
template <class Block>
BlockProduct ProductWithHalves(const void* weights, std::size_t b, const std::int8_t* x) {
  const auto block = BlockAt<Block>(weights, b / 8);
  const std::size_t p = b % 8;
  const auto element = [&](std::size_t j) { return PartElement(block, p, j); };
  return {HalfScale(block, 2 * p) * Sum(x, 0, 16, element) +
              HalfScale(block, 2 * p + 1) * Sum(x, 16, 32, element),
          F32FromF16(block.d)};
}

BlockProduct Product(DataType type, const void* weights, std::size_t b, const std::int8_t* x) {
  switch (type) {
    case DataType::kQ8_0: {
      const auto block = BlockAt<BlockQ8_0>(weights, b);
      return {Sum(x, 0, 32, [&](std::size_t j) { return block.qs[j]; }), F32FromF16(block.d)};
    }
    case DataType::kQ4_0: {
      const auto block = BlockAt<BlockQ4_0>(weights, b);
      return {Sum(x, 0, 32, [&](std::size_t j) { return Nibble(block.qs, j) - 8; }),
              F32FromF16(block.d)};
    }
    case DataType::kQ4_1: {
      const auto block = BlockAt<BlockQ4_1>(weights, b);
      return {Sum(x, 0, 32, [&](std::size_t j) { return Nibble(block.qs, j); }),
              F32FromF16(block.d), true, F32FromF16(block.m)};
    }
    case DataType::kQ5_0: {
      const auto block = BlockAt<BlockQ5_0>(weights, b);
      const auto element = [&](std::size_t j) {
        return Nibble(block.qs, j) + 16 * Bit(block.qh, j) - 16;
      };
      return {Sum(x, 0, 32, element), F32FromF16(block.d)};
    }
    case DataType::kQ5_1: {
      const auto block = BlockAt<BlockQ5_1>(weights, b);
      const auto element = [&](std::size_t j) {
        return Nibble(block.qs, j) + 16 * Bit(block.qh, j);
      };
      return {Sum(x, 0, 32, element), F32FromF16(block.d), true, F32FromF16(block.m)};
    }
    case DataType::kQ4_K: return ProductWithPart<BlockQ4_K>(weights, b, x);
    case DataType::kQ5_K: return ProductWithPart<BlockQ5_K>(weights, b, x);
    case DataType::kQ3_K: return ProductWithHalves<BlockQ3_K>(weights, b, x);
    case DataType::kQ6_K: return ProductWithHalves<BlockQ6_K>(weights, b, x);
    case DataType::kQ2_K: {
      BlockProduct product = ProductWithHalves<BlockQ2_K>(weights, b, x);
      const auto block = BlockAt<BlockQ2_K>(weights, b / 8);
      const float dmin = F32FromF16(block.dmin);
      const int first = block.scales[b % 8 * 2] >> 4, second = block.scales[b % 8 * 2 + 1] >> 4;
      product.has_minimum = product.has_first = true;
      product.minimum = -(dmin * static_cast<float>(second));
      product.first = dmin * static_cast<float>(first - second);
      return product;
    }
    case DataType::kIQ2_XXS:
    case DataType::kIQ2_XS:
    case DataType::kIQ2_S:
    case DataType::kIQ3_XXS:
    case DataType::kIQ3_S: {
      GridBlock block;
      UnpackGridBlock(type, static_cast<const std::byte*>(weights) + b / 8 * BytesPerBlock(type),
                      &block);
      const std::size_t p = b % 8;
      const auto element = [&](std::size_t j) { return block.q[32 * p + j]; };
      return {block.half_scales[2 * p] * Sum(x, 0, 16, element) +
                  block.half_scales[2 * p + 1] * Sum(x, 16, 32, element),
              block.scale};
    }
    case DataType::kIQ4_NL: {
      const auto block = BlockAt<BlockIQ4_NL>(weights, b);
      return {Sum(x, 0, 32, [&](std::size_t j) { return kIQ4Values[Nibble(block.qs, j)]; }),
              F32FromF16(block.d)};
    }
    case DataType::kIQ4_XS: {
      const auto block = BlockAt<BlockIQ4_XS>(weights, b / 8);
      const std::size_t p = b % 8;
      return {Sum(x, 0, 32, [&](std::size_t j) { return PartElement(block, p, j); }),
              F32FromF16(block.d) * static_cast<float>(PartScale(block, p))};
    }
    case DataType::kMXFP4: {
      const auto block = BlockAt<BlockMXFP4>(weights, b);
      return {Sum(x, 0, 32, [&](std::size_t j) { return kMXFP4Values[Nibble(block.qs, j)]; }),
              ScaleOf(block)};
    }
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBF16: break;
  }
  return {};
}

}  // namespace

void QuantizeRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                  void* to) {
  for (std::size_t r = 0; r < row_count; ++r) {
    const MutableQuantizedRow row = MutableQuantizedRowAt(to, n, r);
    for (std::size_t b = 0; b < PaddedBlocks(n); ++b) {
      float block[kQuantizedBlock] = {};
      if (b < n / kQuantizedBlock) {
        std::copy_n(x + r * x_stride + b * kQuantizedBlock, kQuantizedBlock, block);
      }
      bool finite = true;
      float magnitude = 0.0f;
      for (const float value : block) {
        finite &= IsFinite(value);
        magnitude = std::max(magnitude, std::fabs(value));
      }
      const float d = finite ? magnitude / 127.0f : std::bit_cast<float>(kQuantizedNan);
      const float inverse = finite && d >= 0x1p-126f ? 1.0f / d : 0.0f;
      std::int32_t sums[2] = {};
      for (std::size_t j = 0; j < kQuantizedBlock; ++j) {
        const auto q = static_cast<std::int8_t>(finite ? std::nearbyint(block[j] * inverse) : 0.0f);
        row.q[b * kQuantizedBlock + j] = q;
        sums[j / 16] += q;
      }
      row.scales[b] = d;
      row.starts[b] = -128 * (sums[0] + sums[1]);
      row.half_starts[b] = -128 * sums[0];
      row.scaled_sums[b] = d * static_cast<float>(sums[0] + sums[1]);
    }
  }
}

KVD_FUSED float QuantDot(DataType type, const void* weights, const QuantizedRow& x, std::size_t n) {
  float s[4] = {};
  for (std::size_t b = 0; b < n / kQuantizedBlock; ++b) {
    const BlockProduct product = Product(type, weights, b, x.q + b * kQuantizedBlock);
    float& sum = s[b % 4];
    sum = std::fma(static_cast<float>(product.sum), product.scale * x.scales[b], sum);
    if (product.has_minimum) sum = std::fma(product.minimum, x.scaled_sums[b], sum);
    if (product.has_first) {
      const float half_start = static_cast<float>(x.half_starts[b]) * x.scales[b];
      sum = std::fma(product.first * (1.0f / 128.0f), half_start, sum);
    }
  }
  return (s[0] + s[2]) + (s[1] + s[3]);
}

}  // namespace kvd::kernels::scalar
