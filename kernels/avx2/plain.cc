// kernels/lanes/plain.h for AVX2.
#include "kernels/lanes/plain.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

void PlainDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
               std::size_t n, float* out) {
  PlainDotsWith<Isa>(a, rows, stride, count, n, out);
}

void LaneDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
              std::size_t n, float* out) {
  LaneDotsWith<Isa>(a, rows, stride, count, n, out);
}

void PlainSoftmax(float* x, std::size_t n, std::size_t lane_count) {
  PlainSoftmaxWith<Isa>(x, n, lane_count);
}

}  // namespace kvd::kernels::avx2
