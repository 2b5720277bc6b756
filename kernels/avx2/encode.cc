// Conversion of f32 lanes to the types of the cache, for AVX2.
#include "kernels/lanes/decode.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {
namespace {

struct Encoder {
  static KVD_ALWAYS_INLINE bool NoneHas(__m256i halves, short exponent_bits) {
    const __m256i exponent = _mm256_set1_epi16(exponent_bits);
    const __m256i equal = _mm256_cmpeq_epi16(_mm256_and_si256(halves, exponent), exponent);
    return _mm256_movemask_epi8(equal) == 0;
  }

  static KVD_ALWAYS_INLINE bool F16(V v, void* to) {
    const __m256i halves = _mm256_set_m128i(_mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT),
                                            _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
    _mm256_storeu_si256(static_cast<__m256i*>(to), halves);
    return NoneHas(halves, 0x7c00);
  }

  static KVD_ALWAYS_INLINE __m256i RoundedBF16(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i top = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_or_si256(top, _mm256_set1_epi32(0x40)), nan);
  }
  static KVD_ALWAYS_INLINE bool BF16(V v, void* to) {
    const __m256i packed = _mm256_packus_epi32(RoundedBF16(v.low), RoundedBF16(v.high));
    const __m256i halves = _mm256_permute4x64_epi64(packed, 0xd8);
    _mm256_storeu_si256(static_cast<__m256i*>(to), halves);
    return NoneHas(halves, 0x7f80);
  }

  static KVD_ALWAYS_INLINE __m256 Magnitude(__m256 v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
  }
  // Rounds to the nearest integer and halves away from zero, as std::round does.
  static KVD_ALWAYS_INLINE __m256i Rounded8(__m256 v) {
    const __m256 whole = _mm256_round_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    const __m256 away =
        _mm256_cmp_ps(Magnitude(_mm256_sub_ps(v, whole)), _mm256_set1_ps(0.5f), _CMP_GE_OQ);
    const __m256 one = _mm256_and_ps(away, _mm256_or_ps(sign, _mm256_set1_ps(1.0f)));
    return _mm256_cvttps_epi32(_mm256_add_ps(whole, one));
  }
  static KVD_ALWAYS_INLINE __m128i AsBytes(__m256i low, __m256i high) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  static KVD_ALWAYS_INLINE __m128i Rounded(V v) {
    return AsBytes(Rounded8(v.low), Rounded8(v.high));
  }
  static KVD_ALWAYS_INLINE __m128i Truncated(V v) {
    return AsBytes(_mm256_cvttps_epi32(v.low), _mm256_cvttps_epi32(v.high));
  }

  static KVD_ALWAYS_INLINE bool Q8_0(V a, V b, std::uint8_t* to) {
    auto* block = reinterpret_cast<BlockQ8_0*>(to);
    const bool finite = (Lanes::NotFiniteBits(a) | Lanes::NotFiniteBits(b)) == 0;
    const V magnitudes = {_mm256_max_ps(Magnitude(a.low), Magnitude(b.low)),
                          _mm256_max_ps(Magnitude(a.high), Magnitude(b.high))};
    const float d = finite ? Lanes::Largest(magnitudes) / 127.0f : 0.0f;
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

}  // namespace kvd::kernels::avx2
