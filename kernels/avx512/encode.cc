// Conversion of f32 lanes to the types of the cache, for AVX-512.
#include "kernels/lanes/decode.h"

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/functions.h"

namespace kvd::kernels::avx512 {
namespace {

struct Encoder {
  static KVD_ALWAYS_INLINE bool F16(V v, void* to) {
    const __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(static_cast<__m256i*>(to), halves);
    const __m256i exponent = _mm256_set1_epi16(0x7c00);
    return _mm256_cmpeq_epi16_mask(_mm256_and_si256(halves, exponent), exponent) == 0;
  }

  static KVD_ALWAYS_INLINE bool BF16(V v, void* to) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i top = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m256i halves =
        _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, top, _mm512_set1_epi32(0x40)));
    _mm256_storeu_si256(static_cast<__m256i*>(to), halves);
    const __m256i exponent = _mm256_set1_epi16(0x7f80);
    return _mm256_cmpeq_epi16_mask(_mm256_and_si256(halves, exponent), exponent) == 0;
  }

  // Rounds to the nearest integer and halves away from zero, as std::round does.
  static KVD_ALWAYS_INLINE __m128i Rounded(V v) {
    const V whole = _mm512_roundscale_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const V one = _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN)),
                        _mm512_castps_si512(_mm512_set1_ps(1.0f))));
    const __mmask16 away = _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_sub_ps(v, whole)),
                                              _mm512_set1_ps(0.5f), _CMP_GE_OQ);
    return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(_mm512_mask_add_ps(whole, away, whole, one)));
  }

  static KVD_ALWAYS_INLINE __m128i Truncated(V v) {
    return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v));
  }

  static KVD_ALWAYS_INLINE bool Q8_0(V a, V b, std::uint8_t* to) {
    auto* block = reinterpret_cast<BlockQ8_0*>(to);
    const bool finite = (Lanes::NotFiniteBits(a) | Lanes::NotFiniteBits(b)) == 0;
    const float d =
        finite ? Lanes::Largest(Lanes::Max(_mm512_abs_ps(a), _mm512_abs_ps(b))) / 127.0f : 0.0f;
    const float inverse = d < 0x1p-126f ? 0.0f : 1.0f / d;
    const std::uint16_t half = finite ? _cvtss_sh(d, _MM_FROUND_TO_NEAREST_INT) : 0x7e00;
    block->d = half;
    if (!finite) a = b = Lanes::Zero();
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block->qs),
                     Rounded(Lanes::Mul(a, Lanes::Set(inverse))));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block->qs + 16),
                     Rounded(Lanes::Mul(b, Lanes::Set(inverse))));
    return (half & 0x7c00) != 0x7c00;
  }
};

}  // namespace

bool EncodeRow(DataType type, const float* source, void* destination, std::size_t element_count) {
  return EncodeRowWith<Isa, Encoder>(type, source, destination, element_count);
}

}  // namespace kvd::kernels::avx512
