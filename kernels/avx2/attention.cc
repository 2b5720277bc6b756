// kernels/lanes/attention.h for AVX2.
#include "kernels/lanes/attention.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

void KeyPanel(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
              float* panel) {
  KeyPanelWith<Isa>(k_type, k, cell_count, dim, panel);
}

void Scores(const float* panel, std::size_t cell_count, std::size_t dim, const float* q,
            std::size_t q_stride, std::size_t row_count, float scale, float* scores,
            std::size_t score_stride) {
  ScoresWith<Isa>(panel, cell_count, dim, q, q_stride, row_count, scale, scores, score_stride);
}

void SoftmaxRows(float* scores, std::size_t score_stride, std::size_t row_count,
                 std::size_t cell_count, SoftmaxState* states, float* rescales) {
  SoftmaxRowsWith<Isa>(scores, score_stride, row_count, cell_count, states, rescales);
}

void AddValues(DataType v_type, const void* v, std::size_t cell_count, std::size_t dim,
               const float* p, std::size_t p_stride, const float* rescales, std::size_t row_count,
               float* values, std::size_t value_stride) {
  AddValuesWith<Isa>(v_type, v, cell_count, dim, p, p_stride, rescales, row_count, values,
                     value_stride);
}

void MergeSoftmax(const SoftmaxState& other, const float* other_values, std::size_t dim,
                  SoftmaxState* state, float* values) {
  MergeSoftmaxWith<Isa>(other, other_values, dim, state, values);
}

}  // namespace kvd::kernels::avx2
