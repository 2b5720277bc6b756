// Readers (kernels/avx2/quads.h) of q2_K and q3_K weights, whose half blocks of 16 elements have
// their own scales, for AVX2.
#pragma once

#include "kernels/avx2/quads.h"

namespace kvd::kernels::avx2 {

// Reads the low two bits of the elements of four blocks of each row from 32 bytes at `at`.
KVD_ALWAYS_INLINE void PutTwoBits(const WeightRows& rows, std::size_t at, Quad* quad) {
  StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
    const __m256i qs = Bytes::Load32(rows.at[o.value] + at);
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      quad->w[o.value][b.value] =
          _mm256_and_si256(_mm256_srli_epi16(qs, 2 * b.value), _mm256_set1_epi8(3));
    });
  });
}

KVD_ALWAYS_INLINE void PutHalfScales(const Fields::HalfBytes& scales, Quad* quad) {
  quad->parts[0] = Widened(scales.first);
  quad->parts[1] = Widened(scales.second);
}

struct QuadQ2_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ2_K);
  static constexpr int kGroups = 2, kOffset = 0, kBits = 2;
  static constexpr bool kMinimums = true, kHalves = true, kSigned = false;
  using HalfMinimums = void;
  using State = Fields::Factors;
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return Fields::FactorsOf(rows, offsetof(BlockQ2_K, d));
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    PutTwoBits(rows, offsetof(BlockQ2_K, qs) + 32 * kGroup, quad);
    const __m128i a = Fields::Words(rows, 8 * kGroup), b = Fields::Words(rows, 8 * kGroup + 4);
    PutHalfScales(Fields::HalfBytesOf(Fields::Low(a), Fields::Low(b)), quad);
    const Fields::HalfBytes minimums = Fields::HalfBytesOf(Fields::High(a), Fields::High(b));
    quad->scales = QuadBytes::Everywhere(state.d);
    quad->minimums = PartsTimes(minimums.second, state.dmin);
    quad->half_minimums = PartsTimes(_mm_sub_epi8(minimums.second, minimums.first),
                                     _mm_mul_ps(state.dmin, _mm_set1_ps(1.0f / 128.0f)));
  }
};

struct QuadQ3_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ3_K);
  static constexpr int kGroups = 2, kOffset = 4, kBits = 3;
  static constexpr bool kMinimums = false, kHalves = true, kSigned = false;
  struct State {
    __m128 d;           // [row]
    __m128i scales[4];  // [row][half part % 4] of the half parts from 0, 4, 8 and 12
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    constexpr std::size_t kAt = offsetof(BlockQ3_K, scales);
    const __m128i w0 = Fields::Words(rows, kAt), w1 = Fields::Words(rows, kAt + 4);
    const __m128i tops = Fields::Words(rows, kAt + 8);
    const auto joined = [](__m128i low, __m128i top) KVD_INLINE_LAMBDA {
      return _mm_sub_epi8(_mm_or_si128(low, top), _mm_set1_epi8(32));
    };
    return {Fields::HalfOfEach(rows, offsetof(BlockQ3_K, d)),
            {joined(Fields::Low(w0), Fields::TwoAsTop<0>(tops)),
             joined(Fields::Low(w1), Fields::TwoAsTop<2>(tops)),
             joined(Fields::High(w0), Fields::TwoAsTop<4>(tops)),
             joined(Fields::High(w1), Fields::TwoAsTop<6>(tops))}};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    const __m256i twos = _mm256_set1_epi8(0x33);
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const __m256i qs = Bytes::Load32(rows.at[o.value] + offsetof(BlockQ3_K, qs) + 32 * kGroup);
      const __m256i mask = Bytes::Load32(rows.at[o.value] + offsetof(BlockQ3_K, hmask));
      const __m256i bits = kGroup == 0 ? QuadBytes::Low(mask) : QuadBytes::High(mask);
      StaticFor<2>([&](auto odd) KVD_INLINE_LAMBDA {
        // The low half of a byte has the element of block 0 or 1, the high half that of block 2 or
        // 3: two bits of qs, then the third bit.
        const __m256i low = _mm256_and_si256(_mm256_srli_epi16(qs, 2 * odd.value), twos);
        const __m256i thirds = _mm256_shuffle_epi8(ThirdBits<odd.value>(), bits);
        const __m256i both = _mm256_or_si256(low, thirds);
        quad->w[o.value][odd.value] = QuadBytes::Low(both);
        quad->w[o.value][2 + odd.value] = QuadBytes::High(both);
      });
    });
    PutHalfScales(Fields::HalfBytesOf(state.scales[2 * kGroup], state.scales[2 * kGroup + 1]),
                  quad);
    quad->scales = QuadBytes::Everywhere(state.d);
  }

 private:
  // [four bits, one of each block]: the bits of blocks kOdd and 2 + kOdd as bits 2 and 6 of a byte.
  template <int kOdd>
  static KVD_ALWAYS_INLINE __m256i ThirdBits() {
    const auto byte = [](int bits) KVD_INLINE_LAMBDA {
      return static_cast<char>((bits >> kOdd & 1) << 2 | (bits >> (2 + kOdd) & 1) << 6);
    };
    return _mm256_broadcastsi128_si256(_mm_setr_epi8(
        byte(0), byte(1), byte(2), byte(3), byte(4), byte(5), byte(6), byte(7), byte(8), byte(9),
        byte(10), byte(11), byte(12), byte(13), byte(14), byte(15)));
  }
};

}  // namespace kvd::kernels::avx2
