// Pairs of bf16: rounding to them, and their products.
#pragma once

#include "kernels/avx512/halves_panel.h"

namespace kvd::kernels::avx512bf16 {

// Rounds floats to bf16, to nearest even; subnormals become zeros.

using avx512::I;
using avx512::Lanes;
using avx512::V;

struct Round {
  static KVD_ALWAYS_INLINE I Of(V low, V high) {
    const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
    I bits;
    __builtin_memcpy(&bits, &both, sizeof bits);
    return bits;
  }
};

// Products of pairs of bf16.

// sum + the two products of each lane's pairs.
KVD_ALWAYS_INLINE V AddPairs(V sum, I x, I y) {
  __m512bh a, b;
  __builtin_memcpy(&a, &x, sizeof a);
  __builtin_memcpy(&b, &y, sizeof b);
  return _mm512_dpbf16_ps(sum, a, b);
}

}  // namespace kvd::kernels::avx512bf16
