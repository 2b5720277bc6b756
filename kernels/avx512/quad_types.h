// Readers of the weight types that kernels/avx512/quads.h does not read, and the map of every
// quantised type to its reader.
#pragma once

#include "kernels/avx512/quads.h"
#include "kernels/quant_grids.h"

namespace kvd::kernels::avx512 {

// Readers (kernels/avx512/quads.h) of the weight types of kernels/quant_grids.h for AVX-512. Plain
// code unpacks the blocks of the grid types to memory.
template <DataType kType, class Block>
struct QuadInGrid {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr int kGroups = 2, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = true;
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
    const I sign = _mm512_set1_epi8(-128);
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      I(&w)[2] = quad->w[b.value];
      QuadBytes::FromEach(blocks, offsetof(GridBlock, q) + 128 * kGroup + 32 * b.value, w);
      w[0] = _mm512_xor_si512(w[0], sign);
      w[1] = _mm512_xor_si512(w[1], sign);
    });
    const Fields::HalfBytes parts =
        Fields::HalfScalesOf(blocks, offsetof(GridBlock, half_scales) + 8 * kGroup);
    quad->parts[0] = _mm512_cvtepi8_epi32(parts.first);
    quad->parts[1] = _mm512_cvtepi8_epi32(parts.second);
    quad->scales =
        QuadBytes::Everywhere(_mm_castsi128_ps(Fields::Words(blocks, offsetof(GridBlock, scale))));
  }
};

// Readers (kernels/avx512/quads.h) of q2_K and q3_K weights, whose half blocks of 16 elements have
// their own scales, for AVX-512.
//
// The product of an element and the integer scale of its half block fits a byte. A register has
// half a block of four rows, so the table of products of each row lies in the row's 128-bit lane,
// and a byte shuffle looks the products up. Products with x then need no multiplication by the
// scales of halves. A table is a product of 16-bit words, copies of the scales times constants,
// because the units of shuffles and shifts limit the unpacking.
struct HalfParts {
  // (v & mask) | bits in one operation.
  static KVD_ALWAYS_INLINE I Masked(I v, int mask, I bits) {
    return _mm512_ternarylogic_epi32(v, _mm512_set1_epi8(static_cast<char>(mask)), bits, 0xea);
  }
  static KVD_ALWAYS_INLINE I Everywhere(int bits) {
    return _mm512_set1_epi8(static_cast<char>(bits));
  }
  // A constant of sixteen bytes in each lane. It is a constant of 64 bytes, because a broadcast of
  // sixteen bytes from memory takes a shuffle unit.
  static KVD_ALWAYS_INLINE I InEachLane(std::uint64_t low, std::uint64_t high) {
    const auto a = static_cast<long long>(low), b = static_cast<long long>(high);
    return _mm512_setr_epi64(a, b, a, b, a, b, a, b);
  }
};

struct QuadQ2_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ2_K);
  static constexpr int kGroups = 2, kOffset = 0;
  static constexpr bool kMinimums = true, kHalves = false;
  using HalfMinimums = void;
  using RepeatsRow = void;
  struct State {
    I scales;    // of the sixteen half parts of each row
    I minimums;  // the same
    Fields::Factors factors;
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    const I both = QuadBytes::FromEach(rows, offsetof(BlockQ2_K, scales));
    return {QuadBytes::Low(both), QuadBytes::High(both),
            Fields::FactorsOf(rows, offsetof(BlockQ2_K, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    I tables[2];
    PutTables<kGroup>(state.scales, tables);
    I qs[2];
    QuadBytes::FromEach(rows, offsetof(BlockQ2_K, qs) + 32 * kGroup, qs);
    StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto top) KVD_INLINE_LAMBDA {
        constexpr int kPart = 2 * decltype(top)::value + decltype(half)::value;
        const I bits = top.value == 0 ? qs[half.value] : _mm512_srli_epi16(qs[half.value], 4);
        const I even = HalfParts::Masked(bits, 3, HalfParts::Everywhere(4 * kPart));
        const I odd = HalfParts::Masked(bits, 12, HalfParts::Everywhere(kPart));
        quad->w[2 * top.value][half.value] = _mm512_shuffle_epi8(tables[0], even);
        quad->w[2 * top.value + 1][half.value] = _mm512_shuffle_epi8(tables[1], odd);
      });
    });
    // A byte of each block, widened.
    const auto of_half = [&](int half) KVD_INLINE_LAMBDA {
      const auto place = [&](int block) KVD_INLINE_LAMBDA {
        return std::uint64_t{0x80808000u} + static_cast<unsigned>(8 * kGroup + 2 * block + half);
      };
      const I places = HalfParts::InEachLane(place(0) | place(1) << 32, place(2) | place(3) << 32);
      return _mm512_shuffle_epi8(state.minimums, places);
    };
    const I first = of_half(0), second = of_half(1);
    const V dmin = QuadBytes::Everywhere(state.factors.dmin);
    quad->scales = QuadBytes::Everywhere(state.factors.d);
    quad->minimums = Lanes::Mul(_mm512_cvtepi32_ps(second), dmin);
    quad->half_minimums = Lanes::Mul(_mm512_cvtepi32_ps(_mm512_sub_epi32(second, first)),
                                     Lanes::Mul(dmin, Lanes::Set(1.0f / 128.0f)));
  }

 private:
  // The products 0, 1, 2 and 3 times the scale of each half part: tables[0] for the blocks 0 and 2,
  // tables[1] for the blocks 1 and 3. An index has q where qs has it, in bits 0 and 1 for the
  // blocks 0 and 2, in bits 2 and 3 for the blocks 1 and 3; the other two bits number the half
  // part.
  template <int kGroup>
  static KVD_ALWAYS_INLINE void PutTables(I scales, I (&tables)[2]) {
    constexpr std::uint64_t kFirst = 8 * kGroup, kWords = kFirst * 0x0001000100010001u;
    constexpr std::uint64_t kOfOdd = 0x0706030207060302u + kFirst * 0x0101010101010101u;
    // Words of a scale and a zero, times 256 * 1 + 0 or 256 * 3 + 2.
    const I of_even =
        HalfParts::InEachLane(0x8001800180008000u + kWords, 0x8005800580048004u + kWords);
    tables[0] =
        _mm512_mullo_epi16(_mm512_shuffle_epi8(scales, of_even), _mm512_set1_epi32(0x03020100));
    // Words of the scales of two half parts, times q.
    const I of_odd = _mm512_set1_epi64(static_cast<long long>(kOfOdd));
    tables[1] = _mm512_mullo_epi16(_mm512_shuffle_epi8(scales, of_odd),
                                   HalfParts::InEachLane(0x0001000100000000u, 0x0003000300020002u));
  }
};

// The bytes are the negated products, -(scale * (q - 4)), because their range is -128 to 124; the
// factor of the sums is negated, too.
struct QuadQ3_K {
  static constexpr std::size_t kBytes = sizeof(BlockQ3_K);
  static constexpr int kGroups = 2, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  using RepeatsRow = void;
  struct State {
    I scales;  // of the sixteen half parts of each row, plus 32
    I hmask[2];
    __m128 d;  // negated
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    State state;
    // In the block, the twelve bytes of scales follow two other bytes and precede the two bytes of
    // d.
    const I end = QuadBytes::FromEach(rows, offsetof(BlockQ3_K, scales) - 2);
    const __m128i eight = _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9);
    const __m128i four =
        _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13);
    const I low = _mm512_srlv_epi64(_mm512_shuffle_epi8(end, _mm512_broadcast_i32x4(eight)),
                                    _mm512_broadcast_i32x4(_mm_set_epi64x(4, 0)));
    const I high = _mm512_rolv_epi32(_mm512_shuffle_epi8(end, _mm512_broadcast_i32x4(four)),
                                     _mm512_broadcast_i32x4(_mm_setr_epi32(4, 2, 0, 30)));
    const I low_bits = HalfParts::Everywhere(15), bits = HalfParts::Everywhere(63);
    // (low & 15) | (high & 48)
    state.scales = _mm512_and_si512(_mm512_ternarylogic_epi32(low_bits, low, high, 0xca), bits);
    QuadBytes::FromEach(rows, offsetof(BlockQ3_K, hmask), state.hmask);
    state.d = _mm_xor_ps(Fields::HalfOfEach(rows, offsetof(BlockQ3_K, d)), _mm_set1_ps(-0.0f));
    return state;
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    I tables[4];
    StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
      tables[block.value] = Products<8 * kGroup + 2 * block.value>(state.scales);
    });
    I qs[2];
    QuadBytes::FromEach(rows, offsetof(BlockQ3_K, qs) + 32 * kGroup, qs);
    const I twos = HalfParts::Everywhere(0x33);
    StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
      const I mask = state.hmask[half.value];
      const I bits = kGroup == 0 ? QuadBytes::Low(mask) : QuadBytes::High(mask);
      StaticFor<2>([&](auto odd) KVD_INLINE_LAMBDA {
        // The low half of a byte has the element of block 0 or 1, the high half that of block 2 or
        // 3: two bits of qs, then the third bit. A shuffle ignores the bits 4 to 6 of an index.
        const I low = _mm512_srli_epi16(qs[half.value], 2 * odd.value);
        const I thirds = _mm512_shuffle_epi8(ThirdBits<odd.value>(), bits);
        const I both = _mm512_ternarylogic_epi32(low, twos, thirds, 0xea);
        const I high = _mm512_srli_epi16(both, 4);
        I(&w)[2] = quad->w[odd.value], (&v)[2] = quad->w[2 + odd.value];
        w[half.value] = _mm512_shuffle_epi8(tables[odd.value], OfHalf<half.value>(both));
        v[half.value] = _mm512_shuffle_epi8(tables[2 + odd.value], OfHalf<half.value>(high));
      });
    });
    quad->scales = QuadBytes::Everywhere(state.d);
  }

 private:
  // The eight products of half part kPart of each row, and the eight of the next half part. A word
  // has the bytes 128 - (scale - 32) * (q - 4) of an even q and of q + 1.
  template <int kPart>
  static KVD_ALWAYS_INLINE I Products(I scales) {
    constexpr std::uint64_t kWords = 0x0001000100010001u, kZeros = 0x8000u * kWords;
    const I places = HalfParts::InEachLane(kPart * kWords | kZeros, (kPart + 1) * kWords | kZeros);
    const auto factor = [](int q) KVD_INLINE_LAMBDA { return 4 - q + 256 * (3 - q); };
    const auto rest = [&](int q) KVD_INLINE_LAMBDA { return 128 * 257 - 32 * factor(q); };
    const I of_half = _mm512_shuffle_epi8(scales, places);
    return _mm512_add_epi16(_mm512_mullo_epi16(of_half, OfEvens(factor)), OfEvens(rest));
  }
  // of(q) of q = 0, 2, 4 and 6, in each half of each lane.
  template <class F>
  static KVD_ALWAYS_INLINE I OfEvens(const F& of) {
    const auto word = [&](int q) KVD_INLINE_LAMBDA { return std::uint64_t{of(q) & 0xffffu}; };
    return _mm512_set1_epi64(
        static_cast<long long>(word(0) | word(2) << 16 | word(4) << 32 | word(6) << 48));
  }
  // [four bits, one of each block]: the bits of blocks kOdd and 2 + kOdd as bits 2 and 6 of a byte.
  template <int kOdd>
  static KVD_ALWAYS_INLINE I ThirdBits() {
    const auto byte = [](int bits) KVD_INLINE_LAMBDA {
      return static_cast<char>((bits >> kOdd & 1) << 2 | (bits >> (2 + kOdd) & 1) << 6);
    };
    return _mm512_broadcast_i32x4(_mm_setr_epi8(
        byte(0), byte(1), byte(2), byte(3), byte(4), byte(5), byte(6), byte(7), byte(8), byte(9),
        byte(10), byte(11), byte(12), byte(13), byte(14), byte(15)));
  }
  // Indices into the products of the second half of a block begin at 8.
  template <int kHalf>
  static KVD_ALWAYS_INLINE I OfHalf(I indices) {
    if constexpr (kHalf == 0) return indices;
    return HalfParts::Masked(indices, 7, HalfParts::Everywhere(8));
  }
};

// Readers (kernels/avx512/quads.h) of the weight types whose nibbles are indices into a table of
// sixteen integers (iq4_nl, iq4_xs, mxfp4), for AVX-512. A byte shuffle looks the integers up in
// registers.

// Sixteen bytes at `at` of each row, whose low halves are elements 0..15 of a block.
template <const std::int8_t (&kValues)[16]>
KVD_ALWAYS_INLINE void LookUp(const WeightRows& rows, std::size_t at, I (&w)[2]) {
  const I table = _mm512_broadcast_i32x4(NibbleTable<Lanes, kValues>::Plus(128));
  const I bytes = QuadBytes::FromEach(rows, at);
  w[0] = _mm512_shuffle_epi8(table, QuadBytes::Low(bytes));
  w[1] = _mm512_shuffle_epi8(table, QuadBytes::High(bytes));
}

template <class Block, const std::int8_t (&kValues)[16]>
struct QuadOfTable {
  static constexpr std::size_t kBytes = 4 * sizeof(Block);
  static constexpr int kGroups = 1, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  using State = NoState;
  static KVD_ALWAYS_INLINE State Open(const WeightRows&) { return {}; }
  static KVD_ALWAYS_INLINE void PutElements(const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      LookUp<kValues>(rows, sizeof(Block) * b.value + offsetof(Block, qs), quad->w[b.value]);
    });
  }
};

struct QuadIQ4_NL : QuadOfTable<BlockIQ4_NL, kIQ4Values> {
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    PutElements(rows, quad);
    quad->scales = QuadBytes::Halves<sizeof(BlockIQ4_NL)>(rows, 0);
  }
};

struct QuadMXFP4 : QuadOfTable<BlockMXFP4, kMXFP4Values> {
  using RepeatsRow = void;
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State&, const WeightRows& rows, Quad* quad) {
    PutElements(rows, quad);
    const I e = _mm512_cvtepu8_epi32(Fields::BytesOfBlocks<sizeof(BlockMXFP4)>(rows, 0));
    // The bits of 2^(e - 128) as f32 are (e - 1) << 23; for e < 2 the number is subnormal.
    const I one = _mm512_set1_epi32(1);
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    const I least = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), _mm512_min_epi32(e, one));
    quad->scales = _mm512_castsi512_ps(_mm512_max_epi32(normal, least));
  }
};

struct QuadIQ4_XS {
  static constexpr std::size_t kBytes = sizeof(BlockIQ4_XS);
  static constexpr int kGroups = 2, kOffset = 128;
  static constexpr bool kMinimums = false, kHalves = false;
  using RepeatsRow = void;
  struct State {
    __m128 d;  // [row]
  };
  static KVD_ALWAYS_INLINE State Open(const WeightRows& rows) {
    return {Fields::HalfOfEach(rows, offsetof(BlockIQ4_XS, d))};
  }
  template <int kGroup>
  static KVD_ALWAYS_INLINE void Group(const State& state, const WeightRows& rows, Quad* quad) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      LookUp<kIQ4Values>(rows, offsetof(BlockIQ4_XS, qs) + 64 * kGroup + 16 * b.value,
                         quad->w[b.value]);
    });
    quad->scales = PartsTimes(Fields::ScalesOfIQ4_XS<kGroup>(rows), state.d);
  }
};

// Maps every quantised weight type to its reader; kernels/lanes/dispatch.h selects a reader by
// these names.
struct QuadTypes {
  using Lanes = avx512::Lanes;
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
};

}  // namespace kvd::kernels::avx512
