// Attention over one run of cells, and plain attention, in plain code.
#include <algorithm>
#include <cmath>

#include "kernels/form_constants.h"
#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {

// ---- attention
// Attention over one run of cells, as the numeric form defines it.

namespace {

constexpr std::size_t kChunkElements = 256;  // a multiple of every block

}  // namespace

void KeyPanel(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
              float* panel) {
  float decoded[kChunkElements];
  const std::size_t column_count = (cell_count + 15) / 16 * 16;
  for (std::size_t c = 0; c < column_count; ++c) {
    const std::byte* cell = static_cast<const std::byte*>(k) + c * RowBytes(k_type, dim);
    for (std::size_t j = 0; j < dim; j += kChunkElements) {
      const std::size_t count = std::min(kChunkElements, dim - j);
      if (c < cell_count) {
        DecodeRow(k_type, cell + RowBytes(k_type, j), decoded, count);
      } else {
        std::fill_n(decoded, count, 0.0f);
      }
      for (std::size_t d = 0; d < count; ++d) panel[(j + d) * kRunCells + c] = decoded[d];
    }
  }
}

KVD_FUSED void Scores(const float* panel, std::size_t cell_count, std::size_t dim, const float* q,
                      std::size_t q_stride, std::size_t row_count, float scale, float* scores,
                      std::size_t score_stride) {
  for (std::size_t r = 0; r < row_count; ++r) {
    float totals[kRunCells] = {};
    for (std::size_t first = 0; first < dim; first += kScoreChunk) {
      float sums[kRunCells] = {};
      for (std::size_t d = first; d < std::min(first + kScoreChunk, dim); ++d) {
        for (std::size_t c = 0; c < cell_count; ++c) {
          sums[c] = std::fma(q[r * q_stride + d], panel[d * kRunCells + c], sums[c]);
        }
      }
      for (std::size_t c = 0; c < cell_count; ++c) totals[c] += sums[c];
    }
    for (std::size_t c = 0; c < cell_count; ++c) scores[r * score_stride + c] = scale * totals[c];
  }
}

KVD_FUSED void SoftmaxRows(float* scores, std::size_t score_stride, std::size_t row_count,
                           std::size_t cell_count, SoftmaxState* states, float* rescales) {
  for (std::size_t r = 0; r < row_count; ++r, scores += score_stride) {
    SoftmaxState& state = states[r];
    float max = state.max;
    for (std::size_t c = 0; c < cell_count; ++c) max = scores[c] > max ? scores[c] : max;
    max += 0.0f;  // a zero maximum is +0, independent of the sign of the zeros
    PartialSums sums;
    for (std::size_t c = 0; c < cell_count; ++c) {
      scores[c] = Exp(scores[c] - max);
      sums.s[c % 16] += scores[c];
    }
    rescales[r] = Exp(state.max - max);
    state.sum = state.sum * rescales[r] + sums.Total();
    state.max = max;
  }
}

KVD_FUSED void AddValues(DataType v_type, const void* v, std::size_t v_stride,
                         std::size_t cell_count, std::size_t dim, const float* p,
                         std::size_t p_stride, const float* rescales, std::size_t row_count,
                         float* values, std::size_t value_stride) {
  float decoded[kChunkElements];
  for (std::size_t r = 0; r < row_count && rescales != nullptr; ++r) {
    for (std::size_t d = 0; d < dim; ++d) values[r * value_stride + d] *= rescales[r];
  }
  for (std::size_t c = 0; c < cell_count; ++c) {
    const std::byte* cell = static_cast<const std::byte*>(v) + c * v_stride;
    for (std::size_t j = 0; j < dim; j += kChunkElements) {
      const std::size_t count = std::min(kChunkElements, dim - j);
      DecodeRow(v_type, cell + RowBytes(v_type, j), decoded, count);
      for (std::size_t r = 0; r < row_count; ++r) {
        float* const row = values + r * value_stride + j;
        const float weight = p[r * p_stride + c];
        for (std::size_t d = 0; d < count; ++d) row[d] = std::fma(weight, decoded[d], row[d]);
      }
    }
  }
}

void MergeSoftmax(const SoftmaxState& other, const float* other_values, std::size_t dim,
                  SoftmaxState* state, float* values) {
  if (other.sum == 0.0f) return;
  if (state->sum == 0.0f) {
    *state = other;
    std::copy_n(other_values, dim, values);
    return;
  }
  const float max = std::max(state->max, other.max);
  const float own = Exp(state->max - max), others = Exp(other.max - max);
  state->sum = state->sum * own + other.sum * others;
  state->max = max;
  for (std::size_t d = 0; d < dim; ++d) {
    values[d] = std::fma(others, other_values[d], values[d] * own);
  }
}

// ---- plain
// Plain attention, as kernels/kernel_table.h defines it.

namespace {

float PlainDot(const float* a, const float* b, std::size_t n) {
  const std::size_t whole = n / 64 * 64;
  float sums[64] = {};
  for (std::size_t j = 0; j < whole; ++j) sums[j % 64] = std::fma(a[j], b[j], sums[j % 64]);
  for (std::size_t i = 0; i < 32; ++i) sums[i] += sums[i + 32];
  PartialSums last;
  for (std::size_t i = 0; i < 16; ++i) last.s[i] = sums[i] + sums[i + 16];
  float total = last.Total();
  std::size_t j = whole;
  for (; j < n / 8 * 8; ++j) {
    const float product = a[j] * b[j];
    total += product;
  }
  for (; j < n; ++j) total = std::fma(a[j], b[j], total);
  return total;
}

float PlainExp(float x) {
  if (x < kPlainBelow) x = kPlainBelow;  // false for a NaN
  const float z = std::fma(x, kPlainLog2E, kPlainRound);
  const float n = z - kPlainRound;
  float b = std::fma(-n, kPlainLn2High, x);
  b = std::fma(-n, kPlainLn2Low, b);
  const float u = b * b;
  const float high = std::fma(kPlainC4, b, kPlainC3);
  const float middle = std::fma(high, u, std::fma(kPlainC2, b, kPlainC1));
  const float j = std::fma(middle, u, std::fma(kPlainC0, b, 1.0f));
  if (n != n) return n;
  return std::ldexp(j, static_cast<int>(n));
}

}  // namespace

void PlainDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
               std::size_t n, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = PlainDot(a, rows + i * stride, n);
}

void LaneDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
              std::size_t n, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    PartialSums sums;
    AddProducts(a, rows + i * stride, n, &sums);
    out[i] = sums.Total();
  }
}

void PlainSoftmax(float* x, std::size_t n, std::size_t lane_count) {
  float max = x[0];
  for (std::size_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  double sum = 0;
  for (std::size_t i = 0; i < lane_count; i += 16) {
    PartialSums group;
    for (std::size_t j = 0; j < 16; ++j) group.s[j] = x[i + j] = PlainExp(x[i + j] - max);
    sum += static_cast<double>(group.Total());
  }
  for (std::size_t i = lane_count; i < n; ++i) {
    x[i] = static_cast<float>(std::exp(static_cast<double>(x[i] - max)));
    sum += static_cast<double>(x[i]);
  }
  const float inverse = static_cast<float>(1.0 / sum);
  for (std::size_t i = 0; i < n; ++i) x[i] *= inverse;
}

}  // namespace kvd::kernels::scalar
