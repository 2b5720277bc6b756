// kernels/lanes/attention.h for AVX2.
#include "kernels/lanes/attention.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

void Scores(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim, const float* q,
            std::size_t q_stride, std::size_t row_count, float scale, float* scores,
            std::size_t score_stride) {
  ScoresWith<Isa>(k_type, k, cell_count, dim, q, q_stride, row_count, scale, scores, score_stride);
}

float SoftmaxRun(float* scores, std::size_t cell_count, SoftmaxState* state) {
  return SoftmaxRunWith<Isa>(scores, cell_count, state);
}

void AddValues(DataType v_type, const void* v, std::size_t cell_count, std::size_t dim,
               const float* p, float rescale, float* values) {
  AddValuesWith<Isa>(v_type, v, cell_count, dim, p, rescale, values);
}

}  // namespace kvd::kernels::avx2
