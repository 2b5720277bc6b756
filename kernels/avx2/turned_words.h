// Reads the elements of four blocks of each of eight weight rows as words of four elements, one
// row per lane, for AVX2. The packed bytes are transposed before their bits are unpacked, so that
// blocks that share bytes share the transposition.
//
// TurnedWords<Q>::Of<kGroup>(rows, states, put) calls put(block, word, vector) for each of four
// blocks and eight words: lane o of `vector` has the elements [4 word, 4 word + 4) of the block of
// row o, in the form of the reader Q (kernels/avx2/quads.h).
#pragma once

#include "kernels/avx2/quad_types.h"

namespace kvd::kernels::avx2 {

// Outputs 0 to 3, and 4 to 7.
using EightRows = WeightRows[2];

// The four words of the sixteen bytes at `at` of each row.
struct Turned {
  __m256i word[4];

  static KVD_ALWAYS_INLINE Turned Of(const EightRows& rows, std::size_t at) {
    __m256i r[4];
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      r[o.value] = _mm256_set_m128i(Bytes::Load16(rows[1].at[o.value] + at),
                                    Bytes::Load16(rows[0].at[o.value] + at));
    });
    const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpackhi_epi32(r[0], r[1]);
    const __m256i c = _mm256_unpacklo_epi32(r[2], r[3]), d = _mm256_unpackhi_epi32(r[2], r[3]);
    return {{_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
             _mm256_unpackhi_epi64(b, d)}};
  }
};

// Calls of(half, word of the half, that word) for the 32 bytes at `at`.
template <class F>
KVD_ALWAYS_INLINE void ForTurned32(const EightRows& rows, std::size_t at, const F& of) {
  StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
    const Turned turned = Turned::Of(rows, at + 16 * half.value);
    StaticFor<4>([&](auto j)
                     KVD_INLINE_LAMBDA { of(4 * half.value + j.value, turned.word[j.value]); });
  });
}

// Bits [kFrom, kFrom + kBits) of each byte, moved to the bits from kTo on.
template <int kFrom, int kBits, int kTo = 0>
KVD_ALWAYS_INLINE __m256i BitsOf(__m256i v) {
  const __m256i moved = kFrom >= kTo ? _mm256_srli_epi16(v, kFrom >= kTo ? kFrom - kTo : 0)
                                     : _mm256_slli_epi16(v, kFrom >= kTo ? 0 : kTo - kFrom);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(((1 << kBits) - 1) << kTo)));
}

template <class Q>
struct TurnedWords;

template <>
struct TurnedWords<QuadQ8_0> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const NoState (&)[2], const F& put) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      ForTurned32(rows, b.value * sizeof(BlockQ8_0) + offsetof(BlockQ8_0, qs),
                  [&](int word, __m256i v) KVD_INLINE_LAMBDA { put(b.value, word, v); });
    });
  }
};

// Blocks of sixteen bytes: the low halves of the bytes are the elements 0 to 15. Change gives the
// elements from the halves.
template <class Block, class Change>
struct TurnedNibbles {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const NoState (&)[2], const F& put) {
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      const std::size_t at = b.value * sizeof(Block);
      const Turned turned = Turned::Of(rows, at + offsetof(Block, qs));
      const Change change(rows, at);
      StaticFor<4>([&](auto j) KVD_INLINE_LAMBDA {
        put(b.value, j.value, change.template Of<j.value>(BitsOf<0, 4>(turned.word[j.value])));
        put(b.value, 4 + j.value,
            change.template Of<4 + j.value>(BitsOf<4, 4>(turned.word[j.value])));
      });
    });
  }
};

struct Unchanged {
  KVD_ALWAYS_INLINE Unchanged(const EightRows&, std::size_t) {}
  template <int kWord>
  KVD_ALWAYS_INLINE __m256i Of(__m256i v) const {
    return v;
  }
};
template <>
struct TurnedWords<QuadQ4_0> : TurnedNibbles<BlockQ4_0, Unchanged> {};
template <>
struct TurnedWords<QuadQ4_1> : TurnedNibbles<BlockQ4_1, Unchanged> {};

// Adds the fifth bits, which are one word of a block.
template <class Block>
class WithFifthBits {
 public:
  KVD_ALWAYS_INLINE WithFifthBits(const EightRows& rows, std::size_t at) {
    const std::size_t place = at + offsetof(Block, qh);
    bits_ = _mm256_set_m128i(Fields::Words(rows[1], place), Fields::Words(rows[0], place));
  }
  template <int kWord>
  KVD_ALWAYS_INLINE __m256i Of(__m256i v) const {
    constexpr char a = kWord / 2, b = a + 4, c = a + 8, d = a + 12;  // the byte of each lane
    const __m256i byte = _mm256_shuffle_epi8(
        bits_, _mm256_setr_epi8(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d, a, a, a, a, b, b, b,
                                b, c, c, c, c, d, d, d, d));
    const __m256i bit =
        _mm256_set1_epi32(kWord % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    const __m256i fifth = _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit);
    return _mm256_or_si256(v, _mm256_and_si256(fifth, _mm256_set1_epi8(16)));
  }

 private:
  __m256i bits_;
};
template <>
struct TurnedWords<QuadQ5_0> : TurnedNibbles<BlockQ5_0, WithFifthBits<BlockQ5_0>> {};
template <>
struct TurnedWords<QuadQ5_1> : TurnedNibbles<BlockQ5_1, WithFifthBits<BlockQ5_1>> {};

// Replaces each nibble by the integer of a table.
template <const std::int8_t (&kValues)[16], int kPlus>
struct InTable {
  KVD_ALWAYS_INLINE InTable(const EightRows&, std::size_t) {}
  static KVD_ALWAYS_INLINE __m256i LookUp(__m256i v) {
    const __m128i table = NibbleTable<Lanes, kValues>::Plus(kPlus);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), v);
  }
  template <int kWord>
  KVD_ALWAYS_INLINE __m256i Of(__m256i v) const {
    return LookUp(v);
  }
};
template <>
struct TurnedWords<QuadIQ4_NL> : TurnedNibbles<BlockIQ4_NL, InTable<kIQ4Values, 0>> {};
template <>
struct TurnedWords<QuadMXFP4>
    : TurnedNibbles<BlockMXFP4, InTable<kMXFP4Values, QuadMXFP4::kOffset>> {};

template <>
struct TurnedWords<QuadIQ4_XS> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const QuadIQ4_XS::State (&)[2],
                                   const F& put) {
    using Table = InTable<kIQ4Values, 0>;
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      const Turned turned =
          Turned::Of(rows, offsetof(BlockIQ4_XS, qs) + 64 * kGroup + 16 * b.value);
      StaticFor<4>([&](auto j) KVD_INLINE_LAMBDA {
        put(b.value, j.value, Table::LookUp(BitsOf<0, 4>(turned.word[j.value])));
        put(b.value, 4 + j.value, Table::LookUp(BitsOf<4, 4>(turned.word[j.value])));
      });
    });
  }
};

template <>
struct TurnedWords<QuadQ4_K> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const QuadQ4_K::State (&)[2],
                                   const F& put) {
    StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
      ForTurned32(rows, offsetof(BlockQ4_K, qs) + 64 * kGroup + 32 * pair.value,
                  [&](int word, __m256i v) KVD_INLINE_LAMBDA {
                    put(2 * pair.value, word, BitsOf<0, 4>(v));
                    put(2 * pair.value + 1, word, BitsOf<4, 4>(v));
                  });
    });
  }
};

template <>
struct TurnedWords<QuadQ5_K> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const QuadQ5_K::State (&)[2],
                                   const F& put) {
    __m256i high[8];
    ForTurned32(rows, offsetof(BlockQ5_K, qh),
                [&](int word, __m256i v) KVD_INLINE_LAMBDA { high[word] = v; });
    StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
      constexpr int kFirst = 2 * decltype(pair)::value;
      ForTurned32(rows, offsetof(BlockQ5_K, qs) + 64 * kGroup + 32 * pair.value,
                  [&](int word, __m256i v) KVD_INLINE_LAMBDA {
                    const __m256i h = high[word];
                    put(kFirst, word,
                        _mm256_or_si256(BitsOf<0, 4>(v), BitsOf<4 * kGroup + kFirst, 1, 4>(h)));
                    put(kFirst + 1, word,
                        _mm256_or_si256(BitsOf<4, 4>(v), BitsOf<4 * kGroup + kFirst + 1, 1, 4>(h)));
                  });
    });
  }
};

template <>
struct TurnedWords<QuadQ6_K> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const QuadQ6_K::State (&)[2],
                                   const F& put) {
    __m256i high[8];
    ForTurned32(rows, offsetof(BlockQ6_K, qh) + 32 * kGroup,
                [&](int word, __m256i v) KVD_INLINE_LAMBDA { high[word] = v; });
    StaticFor<2>([&](auto odd) KVD_INLINE_LAMBDA {
      constexpr int kOdd = decltype(odd)::value;
      ForTurned32(rows, 64 * kGroup + 32 * kOdd, [&](int word, __m256i v) KVD_INLINE_LAMBDA {
        const __m256i h = high[word];
        put(kOdd, word, _mm256_or_si256(BitsOf<0, 4>(v), BitsOf<2 * kOdd, 2, 4>(h)));
        put(2 + kOdd, word, _mm256_or_si256(BitsOf<4, 4>(v), BitsOf<4 + 2 * kOdd, 2, 4>(h)));
      });
    });
  }
};

template <>
struct TurnedWords<QuadQ2_K> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const QuadQ2_K::State (&)[2],
                                   const F& put) {
    ForTurned32(
        rows, offsetof(BlockQ2_K, qs) + 32 * kGroup, [&](int word, __m256i v) KVD_INLINE_LAMBDA {
          StaticFor<4>([&](auto b)
                           KVD_INLINE_LAMBDA { put(b.value, word, BitsOf<2 * b.value, 2>(v)); });
        });
  }
};

template <>
struct TurnedWords<QuadQ3_K> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows& rows, const QuadQ3_K::State (&)[2],
                                   const F& put) {
    __m256i high[8];
    ForTurned32(rows, offsetof(BlockQ3_K, hmask),
                [&](int word, __m256i v) KVD_INLINE_LAMBDA { high[word] = v; });
    ForTurned32(rows, offsetof(BlockQ3_K, qs) + 32 * kGroup,
                [&](int word, __m256i v) KVD_INLINE_LAMBDA {
                  StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
                    constexpr int kBlock = decltype(b)::value;
                    put(kBlock, word,
                        _mm256_or_si256(BitsOf<2 * kBlock, 2>(v),
                                        BitsOf<4 * kGroup + kBlock, 1, 2>(high[word])));
                  });
                });
  }
};

// The blocks of the grid types are in memory as bytes.
template <DataType kType, class Block>
struct TurnedWords<QuadInGrid<kType, Block>> {
  template <int kGroup, class F>
  static KVD_ALWAYS_INLINE void Of(const EightRows&,
                                   const typename QuadInGrid<kType, Block>::State (&states)[2],
                                   const F& put) {
    EightRows blocks;
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      for (int q = 0; q < 2; ++q) {
        blocks[q].at[o.value] = reinterpret_cast<const std::uint8_t*>(states[q].blocks[o.value].q);
      }
    });
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA {
      ForTurned32(blocks, 128 * kGroup + 32 * b.value,
                  [&](int word, __m256i v) KVD_INLINE_LAMBDA { put(b.value, word, v); });
    });
  }
};

}  // namespace kvd::kernels::avx2
