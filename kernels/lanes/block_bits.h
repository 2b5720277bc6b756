// Integers of the blocks of 256 elements (kernels/quant_blocks.h) that every instruction set
// unpacks with the same operations.
#pragma once

#include <immintrin.h>

#include "kernels/lanes/static_for.h"
#include "kernels/quant_blocks.h"

namespace kvd::kernels {

// Bytes: the set's type (kernels/avx2/decoders.h). It puts the instruction set into the mangled
// names, so that the linker does not merge functions that are compiled for different instruction
// sets.
template <class Bytes>
struct BlockBits {
  // The scales of the 8 parts of a q4_K or q5_K block in bytes 0..7, the minimums in bytes 8..15.
  static KVD_ALWAYS_INLINE __m128i PartScales(const std::uint8_t* scales) {
    const std::uint32_t w0 = Bytes::LoadWord(scales), w1 = Bytes::LoadWord(scales + 4),
                        w2 = Bytes::LoadWord(scales + 8);
    return _mm_setr_epi32(
        static_cast<int>(w0 & 0x3f3f3f3fu),
        static_cast<int>((w2 & 0x0f0f0f0fu) | ((w0 >> 6) & 0x03030303u) << 4),
        static_cast<int>(w1 & 0x3f3f3f3fu),
        static_cast<int>(((w2 >> 4) & 0x0f0f0f0fu) | ((w1 >> 6) & 0x03030303u) << 4));
  }

  // Elements [32 kPair, 32 kPair + 32) of a q6_K block, from -32 to 31.
  template <int kPair>
  static KVD_ALWAYS_INLINE __m256i Six(const BlockQ6_K& block) {
    constexpr int kHalf = kPair / 4, kPart = kPair % 4;
    const __m256i ql = Bytes::Load32(block.ql + 64 * kHalf + 32 * (kPart % 2));
    const __m256i qh = Bytes::Load32(block.qh + 32 * kHalf);
    const __m256i low =
        _mm256_and_si256(_mm256_srli_epi16(ql, 4 * (kPart / 2)), _mm256_set1_epi8(15));
    const __m256i high = _mm256_and_si256(
        kPart < 3 ? _mm256_slli_epi16(qh, kPart < 3 ? 4 - 2 * kPart : 0) : _mm256_srli_epi16(qh, 2),
        _mm256_set1_epi8(48));
    return _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
  }
};

}  // namespace kvd::kernels
