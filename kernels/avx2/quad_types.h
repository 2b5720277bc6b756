// Readers of the weight types that kernels/avx2/quads.h does not read, and the map of every
// quantised type to its reader.
#pragma once

#include "kernels/avx2/quads.h"
#include "kernels/quant_grids.h"

namespace kvd::kernels::avx2 {

// Readers (kernels/avx2/quads.h) of the weight types of kernels/quant_grids.h for AVX2. Plain code
// unpacks the blocks of the grid types to memory.
template <DataType kType, class Block>
struct QuadInGrid {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr int kGroups = 2, kOffset = 0, kBits = 8;
  static constexpr bool kMinimums = false, kHalves = true, kSigned = true;
  struct State {
    GridBlock blocks[4];  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    State state;
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      UnpackGridBlock(kType, rows.at[o.value], &state.blocks[o.value]);
    });
    return state;
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows&, Quad* quad) {
    WeightRows blocks;
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      blocks.at[o.value] = reinterpret_cast<const std::uint8_t*>(&state.blocks[o.value]);
    });
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
        quad->w[o.value][b.value] =
            Bytes::Load32(state.blocks[o.value].q + 128 * kGroup + 32 * b.value);
      });
    });
    const Fields::HalfBytes parts =
        Fields::HalfScalesOf(blocks, offsetof(GridBlock, half_scales) + 8 * kGroup);
    quad->parts[0] = Widened(parts.first);
    quad->parts[1] = Widened(parts.second);
    quad->scales =
        QuadBytes::Everywhere(_mm_castsi128_ps(Fields::Words(blocks, offsetof(GridBlock, scale))));
  }
};

// Readers (kernels/avx2/quads.h) of q2_K and q3_K weights, whose half blocks of 16 elements have
// their own scales, for AVX2.

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

// Readers (kernels/avx2/quads.h) of the weight types whose nibbles are indices into a table of
// sixteen integers (iq4_nl, iq4_xs, mxfp4), for AVX2. A byte shuffle looks the integers up in
// registers.

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

// Maps every quantised weight type to its reader; kernels/lanes/dispatch.h selects a reader by
// these names.
struct QuadTypes {
  using Lanes = avx2::Lanes;
  using Quad = avx2::Quad;
  using Sums = avx2::Sums;
  using QuadsQ4_0 = QuadQ4_0;
  using QuadsQ4_1 = QuadQ4_1;
  using QuadsQ5_0 = QuadQ5_0;
  using QuadsQ5_1 = QuadQ5_1;
  using QuadsQ8_0 = QuadQ8_0;
  using QuadsQ2_K = QuadQ2_K;
  using QuadsQ3_K = QuadQ3_K;
  using QuadsQ4_K = QuadQ4_K;
  using QuadsQ5_K = QuadQ5_K;
  using QuadsQ6_K = QuadQ6_K;
  template <DataType kType, class Block>
  using QuadsInGrid = QuadInGrid<kType, Block>;
  using QuadsIQ4_NL = QuadIQ4_NL;
  using QuadsIQ4_XS = QuadIQ4_XS;
  using QuadsMXFP4 = QuadMXFP4;
  static constexpr int kQuantTileRows = 2;
};

}  // namespace kvd::kernels::avx2
