// kernels/lanes/rows.h for AVX2.
#include "kernels/lanes/rows.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

void RmsNorm(const float* x, const float* weight, std::size_t n, float epsilon, float* y) {
  RmsNormWith<Isa>(x, weight, n, epsilon, y);
}

void Rope(float* x, std::size_t head_count, std::size_t head_dim, std::size_t rotated_dim,
          bool interleaved, const float* cosine, const float* sine) {
  RopeWith<Isa>(x, head_count, head_dim, rotated_dim, interleaved, cosine, sine);
}

void SiluMultiply(const float* gate, const float* up, std::size_t n, float* y) {
  SiluMultiplyWith<Isa>(gate, up, n, y);
}

void GeluMultiply(const float* gate, const float* up, std::size_t n, float* y) {
  GeluMultiplyWith<Isa>(gate, up, n, y);
}

void Softcap(const float* x, float cap, std::size_t n, float* y) { SoftcapWith<Isa>(x, cap, n, y); }

void Add(const float* a, const float* b, std::size_t n, float* y) { AddWith<Isa>(a, b, n, y); }

void Scale(const float* a, float factor, std::size_t n, float* y) {
  ScaleWith<Isa>(a, factor, n, y);
}

bool AllFinite(const float* x, std::size_t n) { return AllFiniteWith<Isa>(x, n); }

std::size_t Argmax(const float* x, std::size_t n) { return ArgmaxWith<Isa>(x, n); }

}  // namespace kvd::kernels::avx2
