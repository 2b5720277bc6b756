// Rounds floats to bf16, to nearest even; subnormals become zeros.
#pragma once

#include "kernels/avx512/halves_panel.h"

namespace kvd::kernels::avx512bf16 {

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

}  // namespace kvd::kernels::avx512bf16
