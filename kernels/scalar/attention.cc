// Attention over one run of cells, as the numeric form states it.
#include <algorithm>

#include "kernels/scalar/dot.h"
#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {
namespace {

constexpr std::size_t kChunkElements = 256;  // a multiple of every block and of the 16 partial sums

}  // namespace

void Scores(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim, const float* q,
            std::size_t q_stride, std::size_t row_count, float scale, float* scores,
            std::size_t score_stride) {
  float decoded[kChunkElements];
  for (std::size_t c = 0; c < cell_count; ++c) {
    const std::byte* cell = static_cast<const std::byte*>(k) + c * RowBytes(k_type, dim);
    for (std::size_t r = 0; r < row_count; ++r) {
      PartialSums sums;
      for (std::size_t j = 0; j < dim; j += kChunkElements) {
        const std::size_t count = std::min(kChunkElements, dim - j);
        DecodeRow(k_type, cell + RowBytes(k_type, j), decoded, count);
        AddProducts(q + r * q_stride + j, decoded, count, &sums);
      }
      scores[r * score_stride + c] = scale * sums.Total();
    }
  }
}

float SoftmaxRun(float* scores, std::size_t cell_count, SoftmaxState* state) {
  float max = state->max;
  for (std::size_t c = 0; c < cell_count; ++c) max = scores[c] > max ? scores[c] : max;
  max += 0.0f;  // a zero maximum is +0, whichever zero came first
  PartialSums sums;
  for (std::size_t c = 0; c < cell_count; ++c) {
    scores[c] = Exp(scores[c] - max);
    sums.s[c % 16] += scores[c];
  }
  const float rescale = Exp(state->max - max);
  state->sum = state->sum * rescale + sums.Total();
  state->max = max;
  return rescale;
}

void AddValues(DataType v_type, const void* v, std::size_t cell_count, std::size_t dim,
               const float* p, float rescale, float* values) {
  float decoded[kChunkElements];
  for (std::size_t d = 0; d < dim; ++d) {
    if (rescale == 0.0f) {
      values[d] = 0.0f;
    } else if (rescale != 1.0f) {
      values[d] *= rescale;
    }
  }
  for (std::size_t c = 0; c < cell_count; ++c) {
    const std::byte* cell = static_cast<const std::byte*>(v) + c * RowBytes(v_type, dim);
    for (std::size_t j = 0; j < dim; j += kChunkElements) {
      const std::size_t count = std::min(kChunkElements, dim - j);
      DecodeRow(v_type, cell + RowBytes(v_type, j), decoded, count);
      for (std::size_t d = 0; d < count; ++d)
        values[j + d] = std::fma(p[c], decoded[d], values[j + d]);
    }
  }
}

}  // namespace kvd::kernels::scalar
