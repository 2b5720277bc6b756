// Products of pairs of bf16.
#pragma once

#include "kernels/avx512bf16/round.h"

namespace kvd::kernels::avx512bf16 {

// sum + the two products of each lane's pairs.
KVD_ALWAYS_INLINE V AddPairs(V sum, I x, I y) {
  __m512bh a, b;
  __builtin_memcpy(&a, &x, sizeof a);
  __builtin_memcpy(&b, &y, sizeof b);
  return _mm512_dpbf16_ps(sum, a, b);
}

}  // namespace kvd::kernels::avx512bf16
