// Unpacks four blocks of each of four weight rows to integers in AVX2 registers, for products with
// quantised activations (kernels/lanes/quant_tile.h).
//
// A quad is four blocks of each of four rows; in its vectors of sixteen lanes, lane 4 * b + o is
// for block b of row o. The elements of a block are bytes in one register: w.q + kOffset, below
// 2^kBits, or w.q itself if kSigned. A reader reads one step at a time, which is kGroups quads: the
// 256 elements of a K block, or four blocks of 32 elements.
//
// The instruction that multiplies unsigned by signed bytes adds two products to a saturating 16-bit
// sum. The largest sum of two products is 2 * 63 * 127, or 2 * 128 * 127 for q8_0 (where the sign
// of the weight is moved to x), so no sum saturates.
#pragma once

#include "kernels/avx2/decoders.h"
#include "kernels/lanes/quad_fields.h"

namespace kvd::kernels::avx2 {

using Fields = QuadFields<Lanes>;

struct Integers {  // sixteen lanes
  __m256i low;
  __m256i high;
};

// Whether a reader has the elements by halves of blocks, which its type ByHalves declares. A half
// of two adjacent blocks is then in one register, so that the sums of the two blocks are in
// different 128-bit lanes. A signed byte of such a reader is not -128.
template <class Q>
inline constexpr bool kByHalves = requires { typename Q::ByHalves; };

struct Quad {
  __m256i w[4][4];  // [row][block], or [row][2 * (pair of blocks) + half] if kByHalves
  V scales;
  V minimums;         // if kMinimums
  V half_minimums;    // if kHasHalfMinimums
  Integers parts[2];  // if kHalves: the integer scales of elements 0..15, and of 16..31
};

struct QuadBytes {
  static KVD_ALWAYS_INLINE __m256i Low(__m256i bytes) {
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
  }
  static KVD_ALWAYS_INLINE __m256i High(__m256i bytes) { return Low(_mm256_srli_epi16(bytes, 4)); }
  template <std::size_t kStride>
  static KVD_ALWAYS_INLINE V Halves(const WeightRows& rows, std::size_t at) {
    const auto two = [&](std::size_t place) KVD_INLINE_LAMBDA {
      return _mm256_cvtph_ps(_mm_set_epi64x(Fields::FourHalves(rows, place + kStride),
                                            Fields::FourHalves(rows, place)));
    };
    return {two(at), two(at + 2 * kStride)};
  }
  static KVD_ALWAYS_INLINE V Everywhere(__m128 v) {
    const __m256 both = _mm256_set_m128(v, v);
    return {both, both};
  }
};

struct QuadQ8_0 {
  static constexpr std::size_t kBytes = 4 * sizeof(BlockQ8_0);  // of a step
  static constexpr int kGroups = 1, kOffset = 0, kBits = 8;
  static constexpr bool kMinimums = false, kHalves = false, kSigned = true;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
        quad->w[o.value][b.value] =
            Bytes::Load32(rows.at[o.value] + b.value * sizeof(BlockQ8_0) + 2);
      });
    });
    quad->scales = QuadBytes::Halves<sizeof(BlockQ8_0)>(rows, 0);
  }
};

template <class Block, int kQuadOffset>
struct QuadOf4Bits {
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  static constexpr int kGroups = 1, kOffset = kQuadOffset, kBits = 4;
  static constexpr bool kMinimums = kQuadOffset == 0, kHalves = false, kSigned = false;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
        const __m128i bytes =
            Bytes::Load16(rows.at[o.value] + b.value * sizeof(Block) + offsetof(Block, qs));
        quad->w[o.value][b.value] =
            QuadBytes::Low(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes));
      });
    });
    quad->scales = QuadBytes::Halves<sizeof(Block)>(rows, 0);
    if constexpr (kMinimums) quad->minimums = QuadBytes::Halves<sizeof(Block)>(rows, 2);
  }
};
using QuadQ4_0 = QuadOf4Bits<BlockQ4_0, 8>;
using QuadQ4_1 = QuadOf4Bits<BlockQ4_1, 0>;

template <class Block, int kQuadOffset>
struct QuadOf5Bits : QuadOf4Bits<Block, kQuadOffset> {
  using Base = QuadOf4Bits<Block, kQuadOffset>;
  static constexpr int kBits = 5;
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const NoState& state, const WeightRows& rows, Quad* quad) {
    Base::template Group<kGroup>(state, rows, quad);
    const __m256i byte_of_bit =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
        const std::uint32_t word =
            Bytes::LoadWord(rows.at[o.value] + b.value * sizeof(Block) + offsetof(Block, qh));
        const __m256i bytes =
            _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(word)), byte_of_bit);
        const __m256i fifth = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        __m256i& w = quad->w[o.value][b.value];
        w = _mm256_or_si256(w, _mm256_and_si256(fifth, _mm256_set1_epi8(16)));
      });
    });
  }
};
using QuadQ5_0 = QuadOf5Bits<BlockQ5_0, 16>;
using QuadQ5_1 = QuadOf5Bits<BlockQ5_1, 0>;

// The signed bytes of `of_rows`, [4 rows][4 blocks], each multiplied by its row's factor in `d`.
KVD_ALWAYS_INLINE V PartsTimes(__m128i of_rows, __m128 d) {
  const __m128i bytes = Fields::Transposed(of_rows);
  const V factors = QuadBytes::Everywhere(d);
  const __m256i low = _mm256_cvtepi8_epi32(bytes);
  const __m256i high = _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8));
  return Lanes::Mul({_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)}, factors);
}

// The signed bytes of `of_rows`, [4 rows][4 blocks].
KVD_ALWAYS_INLINE Integers Widened(__m128i of_rows) {
  const __m128i bytes = Fields::Transposed(of_rows);
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}

struct QuadQ4_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ4_K);
  static constexpr int kGroups = 2, kOffset = 0, kBits = 4;
  static constexpr bool kMinimums = true, kHalves = false, kSigned = false;
  using State = Fields::Parts;
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) { return Fields::PartsOf(rows); }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
        const __m256i bytes = Bytes::Load32(rows.at[o.value] + offsetof(BlockQ4_K, qs) +
                                            64 * kGroup + 32 * pair.value);
        quad->w[o.value][2 * pair.value] = QuadBytes::Low(bytes);
        quad->w[o.value][2 * pair.value + 1] = QuadBytes::High(bytes);
      });
    });
    quad->scales = PartsTimes(state.scales[kGroup], state.factors.d);
    quad->minimums = PartsTimes(state.minimums[kGroup], state.factors.dmin);
  }
};

struct QuadQ5_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ5_K);
  static constexpr int kGroups = 2, kOffset = 0, kBits = 5;
  static constexpr bool kMinimums = true, kHalves = false, kSigned = false;
  using State = Fields::Parts;
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) { return Fields::PartsOf(rows); }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const std::uint8_t* block = rows.at[o.value];
      const __m256i qh = Bytes::Load32(block + offsetof(BlockQ5_K, qh));
      StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
        const __m256i bytes =
            Bytes::Load32(block + offsetof(BlockQ5_K, qs) + 64 * kGroup + 32 * (b.value / 2));
        const __m256i low = b.value % 2 == 0 ? QuadBytes::Low(bytes) : QuadBytes::High(bytes);
        const __m256i bit = _mm256_set1_epi8(static_cast<char>(1u << (4 * kGroup + b.value)));
        const __m256i fifth = _mm256_cmpeq_epi8(_mm256_and_si256(qh, bit), bit);
        quad->w[o.value][b.value] =
            _mm256_or_si256(low, _mm256_and_si256(fifth, _mm256_set1_epi8(16)));
      });
    });
    quad->scales = PartsTimes(state.scales[kGroup], state.factors.d);
    quad->minimums = PartsTimes(state.minimums[kGroup], state.factors.dmin);
  }
};

struct QuadQ6_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ6_K);
  static constexpr int kGroups = 2, kOffset = 32, kBits = 6;
  static constexpr bool kMinimums = false, kHalves = true, kSigned = false;
  struct State {
    __m128 d;  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return {Fields::HalfOfEach(rows, offsetof(BlockQ6_K, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    const __m256i mask = _mm256_set1_epi8(48);
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      const std::uint8_t* block = rows.at[o.value];
      const __m256i qh = Bytes::Load32(block + offsetof(BlockQ6_K, qh) + 32 * kGroup);
      const __m256i a = Bytes::Load32(block + 64 * kGroup);
      const __m256i b = Bytes::Load32(block + 64 * kGroup + 32);
      const auto with = [&](__m256i low, __m256i high) KVD_INLINE_LAMBDA {
        return _mm256_or_si256(low, _mm256_and_si256(high, mask));
      };
      __m256i(&w)[4] = quad->w[o.value];
      w[0] = with(QuadBytes::Low(a), _mm256_slli_epi16(qh, 4));
      w[1] = with(QuadBytes::Low(b), _mm256_slli_epi16(qh, 2));
      w[2] = with(QuadBytes::High(a), qh);
      w[3] = with(QuadBytes::High(b), _mm256_srli_epi16(qh, 2));
    });
    const Fields::HalfBytes parts =
        Fields::HalfScalesOf(rows, offsetof(BlockQ6_K, scales) + 8 * kGroup);
    quad->parts[0] = Widened(parts.first);
    quad->parts[1] = Widened(parts.second);
    quad->scales = QuadBytes::Everywhere(state.d);
  }
};

// Integer sums of products, and the lanes of a quad.
struct Sums {
  // float(S) of the numeric form for the blocks of a quad and the blocks of x from block b on.
  template <class Q>
  static KVD_ALWAYS_INLINE V Of(const Quad& quad, const QuantizedRow& row, std::size_t b) {
    return {OfPair<Q, 0>(quad, row, b), OfPair<Q, 1>(quad, row, b)};
  }

  // Copies each of four numbers, one per block, to the lanes of a quad that belong to its block.
  static KVD_ALWAYS_INLINE V Expanded(const float* from) {
    return {_mm256_castsi256_ps(Expanded<0>(from)), _mm256_castsi256_ps(Expanded<1>(from))};
  }
  // float(half_starts) * scales of four blocks, expanded to the lanes of a quad.
  static KVD_ALWAYS_INLINE V ScaledHalfStarts(const QuantizedRow& row, std::size_t b) {
    const V starts = {_mm256_cvtepi32_ps(Expanded<0>(row.half_starts + b)),
                      _mm256_cvtepi32_ps(Expanded<1>(row.half_starts + b))};
    return Lanes::Mul(starts, Expanded(row.scales + b));
  }
  // A mask of the lanes of the first `count` blocks.
  static KVD_ALWAYS_INLINE Lanes::Mask OfBlocks(std::size_t count) {
    return Lanes::FirstLanes(4 * count);
  }
  // Adds the four partial sums of each output and stores them in totals[o].
  static KVD_ALWAYS_INLINE void StoreJoined(V v, float* totals) {
    const __m256 pairs = _mm256_add_ps(v.low, v.high);
    _mm_storeu_ps(totals,
                  _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
  }

 private:
  // Adds the products of the blocks 2 * kPair and 2 * kPair + 1 of a quad.
  template <class Q, int kPair>
  static KVD_ALWAYS_INLINE __m256 OfPair(const Quad& quad, const QuantizedRow& row, std::size_t b) {
    const std::int8_t* q = row.q + kQuantizedBlock * (b + 2 * kPair);
    const __m256i x0 = Bytes::Load32(q), x1 = Bytes::Load32(q + kQuantizedBlock);
    if constexpr (!Q::kHalves) {
      __m256i sums = Wholes<Q, kPair>(quad, x0, x1);
      if constexpr (Q::kOffset != 0) {
        sums = LessOffset<Q::kOffset>(sums, Expanded<kPair>(row.starts + b));
      }
      return _mm256_cvtepi32_ps(sums);
    } else {
      const __m256i halves = Expanded<kPair>(row.half_starts + b);
      const __m256i rests = _mm256_sub_epi32(Expanded<kPair>(row.starts + b), halves);
      const HalfSums sums = Halves<Q, kPair>(quad, x0, x1);
      const __m256i s = LessOffset<Q::kOffset>(sums.first, halves);
      const __m256i t = LessOffset<Q::kOffset>(sums.second, rests);
      const auto part = [&](int half) KVD_INLINE_LAMBDA {
        return kPair == 0 ? quad.parts[half].low : quad.parts[half].high;
      };
      return _mm256_cvtepi32_ps(
          _mm256_add_epi32(_mm256_mullo_epi32(s, part(0)), _mm256_mullo_epi32(t, part(1))));
    }
  }
  // Sums of products of two blocks, [block][row]: of elements 0..15, and of 16..31.
  struct HalfSums {
    __m256i first;
    __m256i second;
  };
  // The blocks 2 * kPair and 2 * kPair + 1 of a quad times x0 and x1.
  template <class Q, int kPair>
  static KVD_ALWAYS_INLINE HalfSums Halves(const Quad& quad, __m256i x0, __m256i x1) {
    if constexpr (!Q::kSigned && Q::kBits <= 5) {
      const __m256i a = JoinedOfBlock<2 * kPair>(quad, x0);
      const __m256i b = JoinedOfBlock<2 * kPair + 1>(quad, x1);
      return {_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
    } else {
      __m256i first[4], second[4];
      StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
        const __m256i a = Dot<Q::kSigned>(quad.w[o.value][2 * kPair], x0);
        const __m256i b = Dot<Q::kSigned>(quad.w[o.value][2 * kPair + 1], x1);
        first[o.value] = _mm256_permute2x128_si256(a, b, 0x20);
        second[o.value] = _mm256_permute2x128_si256(a, b, 0x31);
      });
      return {Joined(first), Joined(second)};
    }
  }
  // The same for types without half scales: sums of whole blocks.
  template <class Q, int kPair>
  static KVD_ALWAYS_INLINE __m256i Wholes(const Quad& quad, __m256i x0, __m256i x1) {
    if constexpr (kByHalves<Q>) {
      const __m256i firsts = _mm256_permute2x128_si256(x0, x1, 0x20);
      const __m256i seconds = _mm256_permute2x128_si256(x0, x1, 0x31);
      __m256i of_row[4];
      StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
        of_row[o.value] = DotOfHalves<Q::kSigned>(quad.w[o.value] + 2 * kPair, firsts, seconds);
      });
      return Joined(of_row);
    } else if constexpr (Q::kSigned) {
      __m256i of_row[4];
      StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
        const __m256i a = Dot<true>(quad.w[o.value][2 * kPair], x0);
        const __m256i b = Dot<true>(quad.w[o.value][2 * kPair + 1], x1);
        of_row[o.value] = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                           _mm256_permute2x128_si256(a, b, 0x31));
      });
      return Joined(of_row);
    } else {
      const HalfSums sums = Halves<Q, kPair>(quad, x0, x1);
      return _mm256_add_epi32(sums.first, sums.second);
    }
  }
  // Block kBlock of the four rows times x: the sums of the first halves in the low 128 bits, those
  // of the second halves in the high 128 bits. A sum of eight products of unsigned bytes of at most
  // five bits fits 16 bits.
  template <int kBlock>
  static KVD_ALWAYS_INLINE __m256i JoinedOfBlock(const Quad& quad, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1);
    const auto added = [&](__m256i a, __m256i b) KVD_INLINE_LAMBDA {
      return _mm256_madd_epi16(_mm256_packs_epi32(a, b), ones);
    };
    __m256i of_row[4];
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      of_row[o.value] = Dot<false>(quad.w[o.value][kBlock], x);
    });
    return added(added(of_row[0], of_row[1]), added(of_row[2], of_row[3]));
  }
  template <int kPair>
  static KVD_ALWAYS_INLINE __m256i Expanded(const void* from) {
    const __m128i four = Bytes::Load16(from);
    const __m256i both = _mm256_broadcastsi128_si256(four);
    const __m256i lanes =
        _mm256_setr_epi32(2 * kPair, 2 * kPair, 2 * kPair, 2 * kPair, 2 * kPair + 1, 2 * kPair + 1,
                          2 * kPair + 1, 2 * kPair + 1);
    return _mm256_permutevar8x32_epi32(both, lanes);
  }
  template <bool kSigned>
  static KVD_ALWAYS_INLINE __m256i Dot(__m256i w, __m256i x) {
    const __m256i pairs = kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                  : _mm256_maddubs_epi16(w, x);
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
  // Products of the halves w[0] and w[1] of two blocks. Four products of unsigned bytes of at most
  // five bits fit 16 bits.
  template <bool kSigned>
  static KVD_ALWAYS_INLINE __m256i DotOfHalves(const __m256i* w, __m256i firsts, __m256i seconds) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (kSigned) {
      // |x| is the same for all rows of weights.
      const __m256i a =
          _mm256_maddubs_epi16(_mm256_abs_epi8(firsts), _mm256_sign_epi8(w[0], firsts));
      const __m256i b =
          _mm256_maddubs_epi16(_mm256_abs_epi8(seconds), _mm256_sign_epi8(w[1], seconds));
      return _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    } else {
      return _mm256_madd_epi16(
          _mm256_add_epi16(_mm256_maddubs_epi16(w[0], firsts), _mm256_maddubs_epi16(w[1], seconds)),
          ones);
    }
  }
  template <int kOffset>
  static KVD_ALWAYS_INLINE __m256i LessOffset(__m256i sums, __m256i starts) {
    static_assert(kOffset <= 128 && (kOffset & (kOffset - 1)) == 0);
    if constexpr (kOffset == 0) {
      return sums;
    } else {
      return _mm256_add_epi32(sums, _mm256_srai_epi32(starts, __builtin_ctz(128 / kOffset)));
    }
  }
  // Adds the four lanes of each block of a row; gives one lane per block and row.
  static KVD_ALWAYS_INLINE __m256i Joined(const __m256i (&of_row)[4]) {
    const __m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(of_row[0], of_row[1]),
                                       _mm256_unpackhi_epi32(of_row[0], of_row[1]));
    const __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(of_row[2], of_row[3]),
                                       _mm256_unpackhi_epi32(of_row[2], of_row[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  }
};

}  // namespace kvd::kernels::avx2
