// Products of many quantised rows of x with panels of unpacked weights (kernels/panels.h), for
// AVX2.
//
// A panel consists of groups of eight outputs, one per lane. For each block of 32 elements, a group
// has the scales, then, if the type has them, the minimums, those of the first half and the integer
// scales of the two halves, then eight vectors of four bytes per output. A panel has the blocks 0,
// 4, 8, ... first, then 1, 5, 9, ..., so that each partial sum of the numeric form is the sum over
// one run of adjacent blocks.
#pragma once

#include "kernels/avx2/turned_words.h"
#include "kernels/lanes/dot_tile.h"
#include "kernels/lanes/quant_rows.h"
#include "kernels/lanes/wide_quant.h"
#include "kernels/panels.h"

namespace kvd::kernels::avx2 {

template <class Q>
struct PanelShape {
  // Indices of the vectors after the scales.
  static constexpr std::size_t kMinimums = 1, kHalfMinimums = 2;
  static constexpr std::size_t kParts =
      kMinimums + (Q::kMinimums ? 1 : 0) + (kHasHalfMinimums<Q> ? 1 : 0);
  static constexpr std::size_t kBytesAt = kParts + (Q::kHalves ? 2 : 0);
  static constexpr std::size_t kVectors = kBytesAt + 8;
  static_assert(2 * kVectors * 32 <= kQuantPanelBlockBytes);
};

// The form of a panel of Q. Fewer than four bits, or signed bytes, need no code of their own.
template <class Q>
using FormOf = PanelForm < Q::kOffset,
      Q::kSigned
          ? 8
          : Q::kBits<4 ? 4 : Q::kBits, Q::kSigned, Q::kMinimums, Q::kHalves, kHasHalfMinimums<Q>>;

KVD_ALWAYS_INLINE void PutVector(std::uint8_t* block, std::size_t vector, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block + 32 * vector), v);
}

// Writes the vectors before the elements of block b of each of eight outputs (matrix rows) to
// blocks[b], for b in [0, 4).
template <class Q>
KVD_ALWAYS_INLINE void PutScales(const Quad (&quads)[2], std::uint8_t* const (&blocks)[4]) {
  using Shape = PanelShape<Q>;
  const auto put = [&](std::size_t vector, auto of) KVD_INLINE_LAMBDA {
    StaticFor<2>([&](auto pair) KVD_INLINE_LAMBDA {
      const __m256i a = of(quads[0], pair), b = of(quads[1], pair);
      PutVector(blocks[2 * pair.value], vector, _mm256_permute2x128_si256(a, b, 0x20));
      PutVector(blocks[2 * pair.value + 1], vector, _mm256_permute2x128_si256(a, b, 0x31));
    });
  };
  put(0, [](const Quad& quad, auto pair) KVD_INLINE_LAMBDA {
    return _mm256_castps_si256(pair.value == 0 ? quad.scales.low : quad.scales.high);
  });
  if constexpr (Q::kMinimums) {
    put(Shape::kMinimums, [](const Quad& quad, auto pair) KVD_INLINE_LAMBDA {
      return _mm256_castps_si256(pair.value == 0 ? quad.minimums.low : quad.minimums.high);
    });
  }
  if constexpr (kHasHalfMinimums<Q>) {
    put(Shape::kHalfMinimums, [](const Quad& quad, auto pair) KVD_INLINE_LAMBDA {
      const V& v = quad.half_minimums;
      return _mm256_castps_si256(pair.value == 0 ? v.low : v.high);
    });
  }
  if constexpr (Q::kHalves) {
    StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
      put(Shape::kParts + half.value, [](const Quad& quad, auto pair) KVD_INLINE_LAMBDA {
        const Integers& parts = quad.parts[decltype(half)::value];
        return pair.value == 0 ? parts.low : parts.high;
      });
    });
  }
}

// Writes one group: outputs [out, out + 8). An output >= last_out is a copy of output last_out - 1.
template <class Q>
void PutGroup(const MatmulArgs& args, std::size_t out, std::size_t last_out, std::uint8_t* panel) {
  const std::size_t block_count = args.in_features / kQuantizedBlock;
  const std::size_t row_bytes = QuadRowBytes<Q>(args.in_features);
  EightRows rows;
  StaticFor<2>([&](auto q) KVD_INLINE_LAMBDA {
    rows[q.value] = WeightRows::Of(args.weights, row_bytes, out + 4 * q.value, last_out);
  });
  constexpr std::size_t kBlockBytes = PanelShape<Q>::kVectors * 32;
  std::uint8_t* to[4];  // the next block of each run
  for (std::size_t p = 0, at = 0; p < 4; ++p) {
    to[p] = panel + at * kBlockBytes;
    at += RunBlocks(block_count, p);
  }
  const auto put = [&](auto group, const typename Q::State(&states)[2]) KVD_INLINE_LAMBDA {
    Quad quads[2];  // only the scales are used
    StaticFor<2>([&](auto q) KVD_INLINE_LAMBDA {
      Q::template Group<group.value>(states[q.value], rows[q.value], &quads[q.value]);
    });
    PutScales<Q>(quads, to);
    TurnedWords<Q>::template Of<group.value>(
        rows, states, [&](int block, int word, __m256i v) KVD_INLINE_LAMBDA {
          PutVector(to[block], PanelShape<Q>::kBytesAt + static_cast<std::size_t>(word), v);
        });
    StaticFor<4>([&](auto p) KVD_INLINE_LAMBDA { to[p.value] += kBlockBytes; });
  };
  std::size_t b = 0;
  for (; b + 4 * Q::kGroups <= block_count; b += 4 * Q::kGroups) {
    typename Q::State states[2];
    StaticFor<2>([&](auto q) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
        PrefetchBlock<Q::kBytes>(rows[q.value].at[o.value] + 8 * row_bytes);
      });
      states[q.value] = Q::Open(rows[q.value]);
    });
    StaticFor<Q::kGroups>([&](auto group) KVD_INLINE_LAMBDA { put(group, states); });
    StaticFor<2>([&](auto q) KVD_INLINE_LAMBDA { rows[q.value].Advance(Q::kBytes); });
  }
  if constexpr (Q::kGroups == 1) {
    if (b == block_count) return;
    std::uint8_t padded[2][4][Q::kBytes];
    StaticFor<2>([&](auto q) KVD_INLINE_LAMBDA {
      rows[q.value].Pad((block_count - b) * (Q::kBytes / 4), padded[q.value]);
    });
    // If a run has no further block, the block is written to `nowhere` instead of into the next
    // run.
    std::uint8_t nowhere[kBlockBytes];
    for (std::size_t p = block_count - b; p < 4; ++p) to[p] = nowhere;
    put(std::integral_constant<int, 0>(), {});
  }
}

// Keeps the compiler from regrouping additions, which would need more registers than there are.
KVD_ALWAYS_INLINE void Keep(__m256i& v) { __asm__("" : "+x"(v)); }

// Sums of products of one block of kRows rows of x and two groups of outputs of the form Q.
template <class Q, int kRows>
struct BlockSums {
  using Sums = __m256i[kRows][2];

  // Adds elements [4 kFirst, 4 kFirst + 4 kCount) of a block. words: the elements of both groups.
  template <int kFirst, int kCount>
  static KVD_ALWAYS_INLINE void Of(const std::uint8_t* const (&words)[2],
                                   const std::int8_t* const (&x)[kRows], Sums& sums) {
    const __m256i ones = _mm256_set1_epi16(1);
    // The number of pairs of products whose sum fits 16 bits.
    constexpr int kRun = Q::kSigned ? 1 : Q::kBits <= 4 ? 8 : Q::kBits == 5 ? 4 : 2;
    constexpr int kStep = kRun < kCount ? kRun : kCount;
    StaticFor<kCount / kStep>([&](auto step) KVD_INLINE_LAMBDA {
      Sums pairs;
      StaticFor<kStep>([&](auto i) KVD_INLINE_LAMBDA {
        constexpr int kWord = kFirst + kStep * decltype(step)::value + decltype(i)::value;
        const __m256i w[2] = {Bytes::Load32(words[0] + 32 * kWord),
                              Bytes::Load32(words[1] + 32 * kWord)};
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          int four = 0;
          __builtin_memcpy(&four, x[r.value] + 4 * kWord, sizeof four);
          const __m256i row = _mm256_set1_epi32(four);
          StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
            const __m256i product = Pairs(w[g.value], row);
            __m256i& pair = pairs[r.value][g.value];
            pair = decltype(i)::value == 0 ? product : _mm256_add_epi16(pair, product);
            Keep(pair);
          });
        });
      });
      StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
        StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
          const __m256i sum = _mm256_madd_epi16(pairs[r.value][g.value], ones);
          __m256i& to = sums[r.value][g.value];
          to = decltype(step)::value == 0 ? sum : _mm256_add_epi32(to, sum);
          Keep(to);
        });
      });
    });
  }

 private:
  static KVD_ALWAYS_INLINE __m256i Pairs(__m256i w, __m256i x) {
    if constexpr (Q::kSigned) {
      return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    }
    return _mm256_maddubs_epi16(w, x);
  }
};

// Q: a PanelForm.
template <class Q, int kRows>
void QuantWideTile(const QuantWideStep& step, Ahead* next) {
  using Shape = PanelShape<Q>;
  using Products = BlockSums<Q, kRows>;
  constexpr std::size_t kBlockBytes = Shape::kVectors * 32;
  constexpr int kShift = Q::kOffset == 0 ? 0 : __builtin_ctz(128 / Q::kOffset);
  const std::size_t group_bytes = step.block_count * kBlockBytes;
  const std::uint8_t* block = step.panel;
  const auto vector = [&](std::size_t group, std::size_t v) KVD_INLINE_LAMBDA {
    return Bytes::Load32(block + group * group_bytes + 32 * v);
  };
  Ahead ahead = *next;
  __m256 totals[4][kRows][2];  // of the four runs
  for (std::size_t p = 0; p < 4; ++p) {
    __m256 sums[kRows][2];
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      sums[r.value][0] = sums[r.value][1] = _mm256_setzero_ps();
    });
    for (std::size_t b = p; b < step.block_count; b += 4, block += kBlockBytes) {
      ahead.Step();
      const std::uint8_t* const words[2] = {block + 32 * Shape::kBytesAt,
                                            block + group_bytes + 32 * Shape::kBytesAt};
      const std::int8_t* x[kRows];
      StaticFor<kRows>(
          [&](auto r) KVD_INLINE_LAMBDA { x[r.value] = step.x[r.value].q + kQuantizedBlock * b; });
      typename Products::Sums s;
      const auto add = [&](auto r, std::int32_t start) KVD_INLINE_LAMBDA {
        if constexpr (Q::kOffset == 0) return;
        const __m256i offset = _mm256_srai_epi32(_mm256_set1_epi32(start), kShift);
        StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
          s[r.value][g.value] = _mm256_add_epi32(s[r.value][g.value], offset);
        });
      };
      if constexpr (Q::kHalves) {
        typename Products::Sums first;
        StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
          constexpr int kHalf = decltype(half)::value;
          Products::template Of<4 * kHalf, 4>(words, x, s);
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
            const QuantizedRow& row = step.x[r.value];
            add(r, kHalf == 0 ? row.half_starts[b] : row.starts[b] - row.half_starts[b]);
            StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
              __m256i& sum = s[r.value][g.value];
              sum = _mm256_mullo_epi32(sum, vector(g.value, Shape::kParts + kHalf));
              if constexpr (kHalf == 0) {
                first[r.value][g.value] = sum;
              } else {
                sum = _mm256_add_epi32(sum, first[r.value][g.value]);
              }
            });
          });
        });
      } else {
        Products::template Of<0, 8>(words, x, s);
        if constexpr (Q::kOffset != 0) {
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA { add(r, step.x[r.value].starts[b]); });
        }
      }
      StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
        const __m256 scale = _mm256_castsi256_ps(vector(g.value, 0));
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          __m256& sum = sums[r.value][g.value];
          sum =
              _mm256_fmadd_ps(_mm256_cvtepi32_ps(s[r.value][g.value]),
                              _mm256_mul_ps(scale, _mm256_set1_ps(step.x[r.value].scales[b])), sum);
        });
        if constexpr (Q::kMinimums) {
          const __m256 minimum = _mm256_castsi256_ps(vector(g.value, Shape::kMinimums));
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
            __m256& sum = sums[r.value][g.value];
            sum = _mm256_fmadd_ps(minimum, _mm256_set1_ps(step.x[r.value].scaled_sums[b]), sum);
          });
        }
      });
      if constexpr (kHasHalfMinimums<Q>) {
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          const QuantizedRow& row = step.x[r.value];
          const float start = static_cast<float>(row.half_starts[b]) * row.scales[b];
          StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
            __m256& sum = sums[r.value][g.value];
            sum = _mm256_fmadd_ps(_mm256_castsi256_ps(vector(g.value, Shape::kHalfMinimums)),
                                  _mm256_set1_ps(start), sum);
          });
        });
      }
    }
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      totals[p][r.value][0] = sums[r.value][0];
      totals[p][r.value][1] = sums[r.value][1];
    });
  }
  *next = ahead;
  StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
    float y[16];
    StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
      const auto of = [&](int p) KVD_INLINE_LAMBDA { return totals[p][r.value][g.value]; };
      _mm256_storeu_ps(y + 8 * g.value,
                       _mm256_add_ps(_mm256_add_ps(of(0), of(2)), _mm256_add_ps(of(1), of(3))));
    });
    __builtin_memcpy(step.y[r.value] + step.out, y, step.out_count * sizeof(float));
  });
}

// As kernels/lanes/wide_quant.h needs it.
struct Panels {
  static constexpr std::size_t kGroupOuts = 8;
  template <class Q>
  static constexpr std::size_t kTileRows = 3;
  template <class Q>
  static constexpr std::size_t kBlockBytes = PanelShape<Q>::kVectors * 32;
  template <class Q>
  using Form = FormOf<Q>;
  template <class Q>
  static KVD_ALWAYS_INLINE void Put(const MatmulArgs& args, std::size_t out, std::size_t last_out,
                                    std::uint8_t* group) {
    PutGroup<Q>(args, out, last_out, group);
  }
  template <class F, int kRows>
  static KVD_ALWAYS_INLINE void Tile(const QuantWideStep& step, Ahead* ahead) {
    QuantWideTile<F, kRows>(step, ahead);
  }
};

}  // namespace kvd::kernels::avx2
