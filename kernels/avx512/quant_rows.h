// Products of a few quantised rows of x with weight rows that are read four or eight at a time, for
// AVX-512.
//
// Several rows of x: four blocks of eight weight rows are unpacked into sixteen registers and
// turned (Turn), so that a register has word k of a half of all four blocks. The rows of x are
// turned, too (TurnedRow). The lanes of the sums are then [weight row][block] without the six
// shuffles and three additions for each row of x that join the lanes of a block otherwise. Turning
// a quad takes sixteen shuffles, once for all rows of x. Sums are kept in the first-level cache.
//
// One row of x: sums of the lanes of a block are joined after the products. For some types the row
// is first written with each sixteen bytes in all four lanes (RepeatPieces).
#pragma once

#include "kernels/avx512/pair_rows.h"
#include "kernels/avx512/quads.h"
#include "kernels/lanes/weights_ahead.h"

namespace kvd::kernels::avx512 {

inline constexpr std::size_t kNarrowQuantRowsMax = 12;

// Whether a product of one row reads x from repeated pieces. A reader whose shuffles and shifts
// limit such a product declares RepeatsRow. Other types leave the first-level cache to the weights:
// a row of 4,096 elements takes 24 KiB there if it is repeated.
template <class Q>
inline constexpr bool kRepeatsRow = requires { typename Q::RepeatsRow; };

// Writes each sixteen bytes of a quantised row of n elements four times, to `to` (64-byte aligned).
// On Zen 4, a broadcast of sixteen bytes from memory takes a shuffle unit, but a load of 64 bytes
// does not.
KVD_ALWAYS_INLINE void RepeatPieces(const std::uint8_t* row, std::size_t n, std::uint8_t* to) {
  for (std::size_t i = 0; i < QuantizedRowBytes(n); i += 16) {
    _mm512_store_si512(to + 4 * i, _mm512_broadcast_i32x4(Bytes::Load16(row + i)));
  }
}

// Adds the products of four blocks, [row][block], to the sums, with the scales and minimums of the
// quads and the numbers of x. kPartial: only in the lanes in `blocks`.
template <class Q, bool kPartial, int kQuads, class X>
KVD_ALWAYS_INLINE void AddScaled(const Quad (&quads)[kQuads], const I (&products)[kQuads],
                                 const X& x, Lanes::Mask blocks, V (&sums)[kQuads]) {
  const V scale = _mm512_castsi512_ps(x.Numbers(0));
  StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
    const Quad& quad = quads[g.value];
    V& sum = sums[g.value];
    V next = Lanes::Fma(_mm512_cvtepi32_ps(products[g.value]), Lanes::Mul(quad.scales, scale), sum);
    if constexpr (Q::kMinimums) {
      next = Lanes::Fma(quad.minimums, _mm512_castsi512_ps(x.Numbers(1)), next);
    }
    if constexpr (kHasHalfMinimums<Q>) {
      next =
          Lanes::Fma(quad.half_minimums, Lanes::Mul(_mm512_cvtepi32_ps(x.Numbers(3)), scale), next);
    }
    sum = kPartial ? Lanes::Select(blocks, next, sum) : next;
  });
}

// Computes the products of kQuads quads of weights with the same blocks of a row of x. kRepeated:
// the row is written by RepeatPieces.
template <class Q, int kQuads, bool kRepeated>
struct RowProducts {
  const std::uint8_t* x;  // the row (kernels/quantized_row.h)
  std::size_t padded;     // PaddedBlocks
  std::size_t b;          // the first block

  // Of the blocks from b on.
  static KVD_ALWAYS_INLINE RowProducts At(const std::uint8_t* x, std::size_t padded,
                                          std::size_t b) {
    return {x, padded, b};
  }

  // sums[g] += the products with quads[g].
  KVD_ALWAYS_INLINE void Add(const Quad (&quads)[kQuads], V (&sums)[kQuads]) const {
    AddTo<false>(quads, Lanes::Mask{}, sums);
  }
  // The same, only in the lanes in `blocks`.
  KVD_ALWAYS_INLINE void AddPart(const Quad (&quads)[kQuads], Lanes::Mask blocks,
                                 V (&sums)[kQuads]) const {
    AddTo<true>(quads, blocks, sums);
  }
  // Numbers of the four blocks, in the lane of each weight row. array: 0 scales, 1 scaled sums, 2
  // starts, 3 half starts.
  KVD_ALWAYS_INLINE I Numbers(std::size_t array) const {
    return InEachLane(kQuantizedBlock * padded + sizeof(float) * (array * padded + b));
  }

 private:
  template <bool kPartial>
  KVD_ALWAYS_INLINE void AddTo(const Quad (&quads)[kQuads], Lanes::Mask blocks,
                               V (&sums)[kQuads]) const {
    I products[kQuads];
    if constexpr (Q::kHalves) {
      const I of_row = Numbers(2), of_first = Numbers(3);
      I first[kQuads], second[kQuads];
      Half<0>(quads, of_first, first);
      Half<1>(quads, _mm512_sub_epi32(of_row, of_first), second);
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
        products[g.value] =
            _mm512_add_epi32(_mm512_mullo_epi32(first[g.value], quads[g.value].parts[0]),
                             _mm512_mullo_epi32(second[g.value], quads[g.value].parts[1]));
      });
    } else {
      I of_block[kQuads][4];
      StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
        const I low = Elements(32 * block.value), high = Elements(32 * block.value + 16);
        StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
          const I(&w)[2] = quads[g.value].w[block.value];
          const I sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[0], low);
          of_block[g.value][block.value] = _mm512_dpbusd_epi32(sum, w[1], high);
        });
      });
      StaticFor<kQuads>([&](auto g)
                            KVD_INLINE_LAMBDA { products[g.value] = Joined(of_block[g.value]); });
      if constexpr (Q::kOffset != 0) TakeOffset(Numbers(2), products);
    }
    AddScaled<Q, kPartial>(quads, products, *this, blocks, sums);
  }
  // Products of the first or second sixteen elements of each block; the sums start at `starts`.
  template <int kHalf>
  KVD_ALWAYS_INLINE void Half(const Quad (&quads)[kQuads], I starts, I (&products)[kQuads]) const {
    I of_block[kQuads][4];
    StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
      const I elements = Elements(32 * block.value + 16 * kHalf);
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
        of_block[g.value][block.value] = _mm512_dpbusd_epi32(
            _mm512_setzero_si512(), quads[g.value].w[block.value][kHalf], elements);
      });
    });
    StaticFor<kQuads>([&](auto g)
                          KVD_INLINE_LAMBDA { products[g.value] = Joined(of_block[g.value]); });
    TakeOffset(starts, products);
  }
  // Sixteen elements from `first`, counted from block b, in the lane of each weight row.
  KVD_ALWAYS_INLINE I Elements(std::size_t first) const {
    return InEachLane(kQuantizedBlock * b + first);
  }
  // Sixteen bytes of the row.
  KVD_ALWAYS_INLINE I InEachLane(std::size_t at) const {
    if constexpr (kRepeated) return _mm512_load_si512(x + 4 * at);
    return _mm512_broadcast_i32x4(Bytes::Load16(x + at));
  }
  static KVD_ALWAYS_INLINE void TakeOffset(I starts, I (&products)[kQuads]) {
    static_assert(Q::kOffset <= 128 && (Q::kOffset & (Q::kOffset - 1)) == 0);
    const I offset = _mm512_srai_epi32(starts, __builtin_ctz(128 / Q::kOffset));
    StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
      products[g.value] = _mm512_add_epi32(products[g.value], offset);
    });
  }
  // Adds the four lanes of each weight row of a block; gives one lane per row and block.
  static KVD_ALWAYS_INLINE I Joined(const I (&of_block)[4]) {
    const I a = _mm512_add_epi32(_mm512_unpacklo_epi32(of_block[0], of_block[1]),
                                 _mm512_unpackhi_epi32(of_block[0], of_block[1]));
    const I b = _mm512_add_epi32(_mm512_unpacklo_epi32(of_block[2], of_block[3]),
                                 _mm512_unpackhi_epi32(of_block[2], of_block[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }
};

// A quantised row of x, turned: for each four blocks, word 0 of the elements of each block, then
// word 1, up to word 7, then the four scales, scaled sums, starts and half starts. It has as many
// bytes as before.
struct TurnedRow {
  static constexpr std::size_t kStepBytes = 4 * (kQuantizedBlock + 16);  // of four blocks

  static KVD_ALWAYS_INLINE void Write(const std::uint8_t* row, std::size_t n, std::uint8_t* to) {
    const std::size_t padded = PaddedBlocks(n);
    for (std::size_t b = 0; b < padded; b += 4, to += kStepBytes) {
      StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
        WriteHalf(row + kQuantizedBlock * b + 16 * half.value, to + 64 * half.value);
      });
      StaticFor<4>([&](auto array) KVD_INLINE_LAMBDA {
        const std::uint8_t* from = row + kQuantizedBlock * padded + 4 * (array.value * padded + b);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * (8 + array.value)),
                         Bytes::Load16(from));
      });
    }
  }

 private:
  // Four words of each of four blocks.
  static KVD_ALWAYS_INLINE void WriteHalf(const std::uint8_t* from, std::uint8_t* to) {
    const auto block = [&](int b)
                           KVD_INLINE_LAMBDA { return Bytes::Load16(from + kQuantizedBlock * b); };
    const auto store = [&](int word, __m128i v) KVD_INLINE_LAMBDA {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * word), v);
    };
    const __m128i a = _mm_unpacklo_epi32(block(0), block(1));
    const __m128i b = _mm_unpackhi_epi32(block(0), block(1));
    const __m128i c = _mm_unpacklo_epi32(block(2), block(3));
    const __m128i d = _mm_unpackhi_epi32(block(2), block(3));
    store(0, _mm_unpacklo_epi64(a, c));
    store(1, _mm_unpackhi_epi64(a, c));
    store(2, _mm_unpacklo_epi64(b, d));
    store(3, _mm_unpackhi_epi64(b, d));
  }
};

// Moves word k of half h of the four blocks of each row to w[k][h].
KVD_ALWAYS_INLINE void Turn(Quad* quad) {
  StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
    I v[4] = {quad->w[0][half.value], quad->w[1][half.value], quad->w[2][half.value],
              quad->w[3][half.value]};
    Transposition::WithinLanes(v);
    StaticFor<4>([&](auto k) KVD_INLINE_LAMBDA { quad->w[k.value][half.value] = v[k.value]; });
  });
}

// Computes the products of kQuads turned quads of weights with the same blocks of a turned row, in
// lanes [weight row][block].
template <class Q, int kQuads>
struct TurnedProducts {
  const std::uint8_t* x;  // the row's four blocks

  static KVD_ALWAYS_INLINE TurnedProducts At(const std::uint8_t* x, std::size_t, std::size_t b) {
    return {x + b / 4 * TurnedRow::kStepBytes};
  }

  KVD_ALWAYS_INLINE void Add(const Quad (&quads)[kQuads], V (&sums)[kQuads]) const {
    AddTo<false>(quads, Lanes::Mask{}, sums);
  }
  KVD_ALWAYS_INLINE void AddPart(const Quad (&quads)[kQuads], Lanes::Mask blocks,
                                 V (&sums)[kQuads]) const {
    AddTo<true>(quads, blocks, sums);
  }
  // As RowProducts::Numbers.
  KVD_ALWAYS_INLINE I Numbers(std::size_t array) const { return Word(8 + array); }

 private:
  template <bool kPartial>
  KVD_ALWAYS_INLINE void AddTo(const Quad (&quads)[kQuads], Lanes::Mask blocks,
                               V (&sums)[kQuads]) const {
    I products[kQuads];
    if constexpr (Q::kHalves) {
      const I of_first = Numbers(3);
      I second[kQuads];
      StartAt(Offset(of_first), products);
      StartAt(Offset(_mm512_sub_epi32(Numbers(2), of_first)), second);
      AddHalf<0>(quads, products);
      AddHalf<1>(quads, second);
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
        const Quad& quad = quads[g.value];
        products[g.value] = _mm512_add_epi32(_mm512_mullo_epi32(products[g.value], quad.parts[0]),
                                             _mm512_mullo_epi32(second[g.value], quad.parts[1]));
      });
    } else {
      I start = _mm512_setzero_si512();
      if constexpr (Q::kOffset != 0) start = Offset(Numbers(2));
      StartAt(start, products);
      AddHalf<0>(quads, products);
      AddHalf<1>(quads, products);
    }
    AddScaled<Q, kPartial>(quads, products, *this, blocks, sums);
  }
  static KVD_ALWAYS_INLINE void StartAt(I start, I (&products)[kQuads]) {
    StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA { products[g.value] = start; });
  }
  template <int kHalf>
  KVD_ALWAYS_INLINE void AddHalf(const Quad (&quads)[kQuads], I (&products)[kQuads]) const {
    StaticFor<4>([&](auto k) KVD_INLINE_LAMBDA {
      const I words = Word(4 * kHalf + k.value);
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
        products[g.value] =
            _mm512_dpbusd_epi32(products[g.value], quads[g.value].w[k.value][kHalf], words);
      });
    });
  }
  KVD_ALWAYS_INLINE I Word(std::size_t k) const {
    return _mm512_broadcast_i32x4(Bytes::Load16(x + 16 * k));
  }
  static KVD_ALWAYS_INLINE I Offset(I starts) {
    return _mm512_srai_epi32(starts, __builtin_ctz(128 / Q::kOffset));
  }
};

// The numeric form's (s0 + s2) + (s1 + s3) of four outputs, whose partial sums are adjacent lanes.
KVD_ALWAYS_INLINE __m128 JoinedSums(V v) {
  const V pairs = Lanes::Add(v, _mm512_permute_ps(v, 0x4e));
  const V joined = Lanes::Add(pairs, _mm512_permute_ps(pairs, 0xb1));
  const I firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, joined));
}

// The reader, the unpacked blocks and the products with which QuantRows multiplies rows of a type.
// kTurned: weights and rows of x are turned. kRepeated: as RowProducts.
template <class Q, int kQuads, bool kTurned, bool kRepeated>
struct RowsOf {
  using Reader = Q;
  using Blocks = Quad;
  using Products = RowProducts<Q, kQuads, kRepeated>;
};
template <class Q, int kQuads>
struct RowsOf<Q, kQuads, true, false> {
  using Reader = Q;
  using Blocks = Quad;
  using Products = TurnedProducts<Q, kQuads>;
};
template <int kQuads>
struct RowsOf<QuadQ6_K, kQuads, false, false> {
  using Reader = PairsQ6_K;
  using Blocks = PairQuad;
  using Products = PairProducts<kQuads>;
};

// kOneRow: there is one row of x.
template <class Q, int kQuads, bool kOneRow>
void QuantRows(const MatmulArgs& args) {
  constexpr std::size_t kOuts = 4 * kQuads;
  const std::size_t n = args.in_features, block_count = n / kQuantizedBlock;
  const std::size_t padded = PaddedBlocks(n), stride = QuantizedRowBytes(n);
  const std::size_t row_bytes = QuadRowBytes<Q>(n);
  constexpr bool kTurned = !kOneRow, kRepeated = kOneRow && kRepeatsRow<Q>;
  using Of = RowsOf<Q, kQuads, kTurned, kRepeated>;
  using Reader = typename Of::Reader;
  const std::size_t row_count = kOneRow ? 1 : args.row_count;
  const auto* rows = static_cast<const std::uint8_t*>(args.quantized_x);
  auto* const rewritten = reinterpret_cast<std::uint8_t*>(args.workspace);
  if constexpr (kRepeated) RepeatPieces(rows, n, rewritten);
  if constexpr (kTurned) {
    for (std::size_t r = 0; r < row_count; ++r) {
      TurnedRow::Write(rows + r * stride, n, rewritten + r * stride);
    }
  }
  if constexpr (kRepeated || kTurned) rows = rewritten;
  // True: the weights of a step are prefetched in small parts between the rows of x. False: they
  // are prefetched all at once.
  constexpr bool kAskBetweenRows = !kOneRow;
  [[maybe_unused]] const std::size_t asked_per_row = kOuts * Q::kBytes / Q::kGroups / row_count + 1;
  WeightsAhead ahead(static_cast<const std::uint8_t*>(args.weights) + args.first_out * row_bytes,
                     row_bytes, kOuts, args.ahead_bytes);
  V sums[kOneRow ? 1 : kNarrowQuantRowsMax][kQuads];
  for (std::size_t out = args.first_out; out < args.last_out; out += kOuts) {
    WeightRows weights[kQuads];
    StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
      weights[g.value] = WeightRows::Of(args.weights, row_bytes, out + 4 * g.value, args.last_out);
    });
    ahead.MoveTo(weights[0].at[0]);
    for (std::size_t r = 0; r < row_count; ++r) {
      for (V& sum : sums[r]) sum = Lanes::Zero();
    }
    typename Of::Blocks quads[kQuads];
    // Calls add_row with the products of each row of x from block b on, and with the row's sums.
    const auto for_rows = [&](std::size_t b, const auto& add_row) KVD_INLINE_LAMBDA {
      const std::uint8_t* x = rows;
      for (std::size_t r = 0; r < row_count; ++r, x += stride) {
        if constexpr (kAskBetweenRows) ahead.Advance(asked_per_row);
        add_row(Of::Products::At(x, padded, b), sums[r]);
      }
    };
    std::size_t b = 0;
    for (; b + 4 * Q::kGroups <= block_count; b += 4 * Q::kGroups) {
      typename Reader::State states[kQuads];
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
        if constexpr (!kAskBetweenRows) ahead.Advance(4 * Q::kBytes);
        states[g.value] = Reader::Open(weights[g.value]);
      });
      StaticFor<Q::kGroups>([&](auto group) KVD_INLINE_LAMBDA {
        StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
          Reader::template Group<group.value>(states[g.value], weights[g.value], &quads[g.value]);
          if constexpr (kTurned) Turn(&quads[g.value]);
        });
        for_rows(b + 4 * group.value, [&](const auto& products, auto& of_row)
                                          KVD_INLINE_LAMBDA { products.Add(quads, of_row); });
      });
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA { weights[g.value].Advance(Q::kBytes); });
    }
    if constexpr (Q::kGroups == 1) {
      if (b < block_count) {
        // Blocks after the end of a row are read and ignored, if another row follows.
        const bool is_followed = out + kOuts < args.last_out && row_bytes >= Q::kBytes;
        std::uint8_t padded_rows[kQuads][4][Q::kBytes];
        StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
          if (!is_followed) {
            weights[g.value].Pad((block_count - b) * (Q::kBytes / 4), padded_rows[g.value]);
          }
          Q::template Group<0>(Q::Open(weights[g.value]), weights[g.value], &quads[g.value]);
          if constexpr (kTurned) Turn(&quads[g.value]);
        });
        const auto blocks = static_cast<Lanes::Mask>(0x1111u * ((1u << (block_count - b)) - 1u));
        for_rows(b, [&](const auto& products, auto& of_row)
                        KVD_INLINE_LAMBDA { products.AddPart(quads, blocks, of_row); });
      }
    }
    const std::size_t left = args.last_out - out;
    for (std::size_t r = 0; r < row_count; ++r) {
      float totals[kOuts];
      StaticFor<kQuads>([&](auto g) KVD_INLINE_LAMBDA {
        _mm_storeu_ps(totals + 4 * g.value, JoinedSums(sums[r][g.value]));
      });
      if (left >= kOuts) {
        __builtin_memcpy(args.y[r] + out, totals, sizeof totals);
      } else {
        for (std::size_t o = 0; o < left; ++o) args.y[r][out + o] = totals[o];
      }
    }
  }
}

// REQUIRES: at most kNarrowQuantRowsMax rows.
template <class Q>
void NarrowQuantMatmul(const MatmulArgs& args) {
  if (args.row_count == 1) {
    QuantRows<Q, 1, true>(args);  // reading four weight rows at a time is faster from memory
  } else {
    QuantRows<Q, 2, false>(args);
  }
}

}  // namespace kvd::kernels::avx512
