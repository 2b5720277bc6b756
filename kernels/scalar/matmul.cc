// The product as the numeric form defines it: weights are decoded 256 at a time, for up to 8 rows
// of x at once.
#include <algorithm>
#include <cmath>

#include "kernels/panels.h"
#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

constexpr std::size_t kChunkElements = 256;  // a multiple of every block and of the 16 partial sums
constexpr std::size_t kRowsAtOnce = 8;

KVD_FUSED void OneOutput(const MatmulArgs& args, const std::byte* weights, std::size_t out,
                         std::size_t first_row, std::size_t row_count) {
  PartialSums sums[kRowsAtOnce];
  float decoded[kChunkElements];
  for (std::size_t j = 0; j < args.in_features; j += kChunkElements) {
    const std::size_t count = std::min(kChunkElements, args.in_features - j);
    DecodeRow(args.weight_type, weights + RowBytes(args.weight_type, j), decoded, count);
    for (std::size_t r = 0; r < row_count; ++r) {
      AddProducts(args.x + (first_row + r) * args.x_stride + j, decoded, count, &sums[r]);
    }
  }
  for (std::size_t r = 0; r < row_count; ++r) args.y[first_row + r][out] = sums[r].Total();
}

// OuterDot of one row of x and one weight row.
KVD_FUSED float OuterDot(const MatmulArgs& args, const std::byte* weights, const float* x) {
  float decoded[kOuterElements];
  float total = 0.0f;
  for (std::size_t first = 0; first < args.in_features; first += kOuterElements) {
    const std::size_t count = std::min(kOuterElements, args.in_features - first);
    DecodeRow(args.weight_type, weights + RowBytes(args.weight_type, first), decoded, count);
    float sum = 0.0f;
    for (std::size_t j = 0; j < count; ++j) sum = std::fma(x[first + j], decoded[j], sum);
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

}  // namespace

void Matmul(const MatmulArgs& args) {
  const std::size_t row_bytes = RowBytes(args.weight_type, args.in_features);
  for (std::size_t out = args.first_out; out < args.last_out; ++out) {
    const std::byte* weights = static_cast<const std::byte*>(args.weights) + out * row_bytes;
    if (IsQuantized(args.weight_type)) {
      for (std::size_t r = 0; r < args.row_count; ++r) {
        args.y[r][out] =
            QuantDot(args.weight_type, weights,
                     QuantizedRowAt(args.quantized_x, args.in_features, r), args.in_features);
      }
      continue;
    }
    if (args.outer_products) {
      for (std::size_t r = 0; r < args.row_count; ++r) {
        args.y[r][out] = OuterDot(args, weights, args.x + r * args.x_stride);
      }
      continue;
    }
    for (std::size_t r = 0; r < args.row_count; r += kRowsAtOnce) {
      OneOutput(args, weights, out, r, std::min(kRowsAtOnce, args.row_count - r));
    }
  }
}

}  // namespace kvd::kernels::scalar
