// Transpositions of words or 128-bit lanes within four registers.
#pragma once

#include "kernels/avx512/lanes.h"

namespace kvd::kernels::avx512 {

using I = __m512i;

struct Transposition {
  // 128-bit lane i of v[q] becomes 128-bit lane q of v[i].
  static KVD_ALWAYS_INLINE void Of128(I (&v)[4]) {
    const I a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
    const I c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    v[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    v[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    v[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    v[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
  // Moves word i of v[q] to word q of v[i], within each 128-bit lane.
  static KVD_ALWAYS_INLINE void WithinLanes(I (&v)[4]) {
    const I a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    const I c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
  }
};

}  // namespace kvd::kernels::avx512
