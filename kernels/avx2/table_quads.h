// Readers (kernels/avx2/quads.h) of the weight types whose nibbles are indices into a table of
// sixteen integers (iq4_nl, iq4_xs, mxfp4), for AVX2. A byte shuffle looks the integers up in
// registers.
#pragma once

#include "kernels/avx2/quads.h"

namespace kvd::kernels::avx2 {

// The integers of the nibbles of two blocks of sixteen bytes, plus kPlus: the first halves of both
// blocks in one register, the second halves in the other (kByHalves).
template <const std::int8_t (&kValues)[16], int kPlus>
KVD_ALWAYS_INLINE void LookUp(const std::uint8_t* first, const std::uint8_t* second, __m256i* w) {
  const __m256i table = _mm256_broadcastsi128_si256(NibbleTable<Lanes, kValues>::Plus(kPlus));
  const __m256i bytes = _mm256_set_m128i(Bytes::Load16(second), Bytes::Load16(first));
  w[0] = _mm256_shuffle_epi8(table, QuadBytes::Low(bytes));
  w[1] = _mm256_shuffle_epi8(table, QuadBytes::High(bytes));
}

// The bytes of types with an offset are unsigned and have at most kBits bits; the bytes of types
// without an offset are signed.
template <class Block, const std::int8_t (&kValues)[16], int kQuadOffset>
struct QuadOfTable {
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  static constexpr int kGroups = 1, kOffset = kQuadOffset, kBits = kQuadOffset == 0 ? 8 : 5;
  static constexpr bool kMinimums = false, kHalves = false, kSigned = kQuadOffset == 0;
  using ByHalves = void;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  static KVD_ALWAYS_INLINE void PutElements(const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
        const std::uint8_t* qs =
            rows.at[o.value] + 2 * pair.value * sizeof(Block) + offsetof(Block, qs);
        LookUp<kValues, kOffset>(qs, qs + sizeof(Block), quad->w[o.value] + 2 * pair.value);
      });
    });
  }
};

struct QuadIQ4_NL : QuadOfTable<BlockIQ4_NL, kIQ4Values, 0> {
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    PutElements(rows, quad);
    quad->scales = QuadBytes::Halves<sizeof(BlockIQ4_NL)>(rows, 0);
  }
};

struct QuadMXFP4 : QuadOfTable<BlockMXFP4, kMXFP4Values, 16> {
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    PutElements(rows, quad);
    const __m128i e = Fields::Transposed(Fields::BytesOfBlocks<sizeof(BlockMXFP4)>(rows, 0));
    quad->scales = {PowersOfTwo(_mm256_cvtepu8_epi32(e)),
                    PowersOfTwo(_mm256_cvtepu8_epi32(_mm_srli_si128(e, 8)))};
  }

 private:
  // The bits of 2^(e - 128) as f32 are (e - 1) << 23; for e < 2 the number is subnormal.
  static KVD_ALWAYS_INLINE __m256 PowersOfTwo(__m256i e) {
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i least =
        _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, least));
  }
};

struct QuadIQ4_XS {
  static constexpr std::size_t kBytes = sizeof(BlockIQ4_XS);
  static constexpr int kGroups = 2, kOffset = 0, kBits = 8;
  static constexpr bool kMinimums = false, kHalves = false, kSigned = true;
  using ByHalves = void;
  struct State {
    __m128 d;  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return {Fields::HalfOfEach(rows, offsetof(BlockIQ4_XS, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
        const std::uint8_t* qs =
            rows.at[o.value] + offsetof(BlockIQ4_XS, qs) + 64 * kGroup + 32 * pair.value;
        LookUp<kIQ4Values, 0>(qs, qs + 16, quad->w[o.value] + 2 * pair.value);
      });
    });
    quad->scales = PartsTimes(Fields::ScalesOfIQ4_XS<kGroup>(rows), state.d);
  }
};

}  // namespace kvd::kernels::avx2
