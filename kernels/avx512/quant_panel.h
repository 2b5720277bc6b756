// Products of many quantised rows of x with panels of unpacked weights (kernels/panels.h), for
// AVX-512.
//
// A panel consists of groups of sixteen outputs, one per lane. For each block of 32 elements, a
// group has the scales, then, if the type has them, the minimums, those of the first half and the
// integer scales of the two halves, then eight vectors of four bytes per output: w.q if kSigned or
// without an offset, else w.q + 128. A panel has the blocks 0, 4, 8, ... first, then 1, 5, 9, ...,
// so that each partial sum of the numeric form is the sum over one run of adjacent blocks.
#pragma once

#include "kernels/avx512/quads.h"
#include "kernels/lanes/dot_tile.h"
#include "kernels/lanes/quant_rows.h"
#include "kernels/lanes/wide_quant.h"
#include "kernels/panels.h"

namespace kvd::kernels::avx512 {

template <class Q>
struct PanelShape {
  // Indices of the vectors after the scales.
  static constexpr std::size_t kMinimums = 1, kHalfMinimums = 2;
  static constexpr std::size_t kParts =
      kMinimums + (Q::kMinimums ? 1 : 0) + (kHasHalfMinimums<Q> ? 1 : 0);
  static constexpr std::size_t kBytesAt = kParts + (Q::kHalves ? 2 : 0);
  static constexpr std::size_t kVectors = kBytesAt + 8;
  static_assert(kVectors * 64 <= kQuantPanelBlockBytes);
};

// The form of a panel of Q. Every offset is 128 in a panel of unsigned bytes.
template <class Q>
using FormOf =
    PanelForm<Q::kOffset == 0 ? 0 : 128, 8, false, Q::kMinimums, Q::kHalves, kHasHalfMinimums<Q>>;

// Writes four blocks of sixteen outputs to a panel. quads[q] has the outputs q, 4 + q, 8 + q and 12
// + q. blocks[b]: where block b is written.
template <class Q, bool kSigned>
KVD_ALWAYS_INLINE void PutQuads(const Quad (&quads)[4], std::uint8_t* const (&blocks)[4]) {
  using Shape = PanelShape<Q>;
  const auto store = [&](std::size_t block, std::size_t vector, I v)
                         KVD_INLINE_LAMBDA { _mm512_storeu_si512(blocks[block] + 64 * vector, v); };
  StaticFor<4>([&](auto block) KVD_INLINE_LAMBDA {
    StaticFor<2>([&](auto half) KVD_INLINE_LAMBDA {
      I v[4];
      StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
        v[q.value] = quads[q.value].w[block.value][half.value];
        constexpr int kMore = (kSigned || Q::kOffset == 0 ? 0 : 128) - Q::kOffset;
        if constexpr (kMore != 0) {
          v[q.value] = _mm512_add_epi8(v[q.value], _mm512_set1_epi8(static_cast<char>(kMore)));
        }
      });
      Transposition::WithinLanes(v);
      StaticFor<4>([&](auto word) KVD_INLINE_LAMBDA {
        store(block.value, Shape::kBytesAt + 4 * half.value + word.value, v[word.value]);
      });
    });
  });
  const auto put = [&](std::size_t vector, auto of) KVD_INLINE_LAMBDA {
    I v[4] = {of(quads[0]), of(quads[1]), of(quads[2]), of(quads[3])};
    Transposition::WithinLanes(v);
    StaticFor<4>([&](auto b) KVD_INLINE_LAMBDA { store(b.value, vector, v[b.value]); });
  };
  put(0, [](const Quad& quad) KVD_INLINE_LAMBDA { return _mm512_castps_si512(quad.scales); });
  if constexpr (Q::kMinimums) {
    put(Shape::kMinimums,
        [](const Quad& quad) KVD_INLINE_LAMBDA { return _mm512_castps_si512(quad.minimums); });
  }
  if constexpr (kHasHalfMinimums<Q>) {
    put(Shape::kHalfMinimums,
        [](const Quad& quad) KVD_INLINE_LAMBDA { return _mm512_castps_si512(quad.half_minimums); });
  }
  if constexpr (Q::kHalves) {
    put(Shape::kParts, [](const Quad& quad) KVD_INLINE_LAMBDA { return quad.parts[0]; });
    put(Shape::kParts + 1, [](const Quad& quad) KVD_INLINE_LAMBDA { return quad.parts[1]; });
  }
}

// Writes one group: outputs [out, out + 16). An output >= last_out is a copy of output last_out -
// 1.
template <class Q, bool kSigned>
void PutGroup(const MatmulArgs& args, std::size_t out, std::size_t last_out, std::uint8_t* panel) {
  const std::size_t block_count = args.in_features / kQuantizedBlock;
  const std::size_t row_bytes = QuadRowBytes<Q>(args.in_features);
  WeightRows rows[4];
  StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
    rows[q.value] = WeightRows::Of(args.weights, row_bytes, out + q.value, last_out, 4);
  });
  constexpr std::size_t kBlockBytes = PanelShape<Q>::kVectors * 64;
  std::uint8_t* to[4];  // the next block of each run
  for (std::size_t p = 0, at = 0; p < 4; ++p) {
    to[p] = panel + at * kBlockBytes;
    at += RunBlocks(block_count, p);
  }
  Quad quads[4];
  const auto put = [&] KVD_INLINE_LAMBDA {
    PutQuads<Q, kSigned>(quads, to);
    StaticFor<4>([&](auto p) KVD_INLINE_LAMBDA { to[p.value] += kBlockBytes; });
  };
  std::size_t b = 0;
  for (; b + 4 * Q::kGroups <= block_count; b += 4 * Q::kGroups) {
    StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
        PrefetchBlock<Q::kBytes>(rows[q.value].at[o.value] + 16 * row_bytes);
      });
    });
    typename Q::State states[4];
    StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA { states[q.value] = Q::Open(rows[q.value]); });
    StaticFor<Q::kGroups>([&](auto group) KVD_INLINE_LAMBDA {
      StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
        Q::template Group<group.value>(states[q.value], rows[q.value], &quads[q.value]);
      });
      put();
    });
    StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA { rows[q.value].Advance(Q::kBytes); });
  }
  if constexpr (Q::kGroups == 1) {
    if (b == block_count) return;
    std::uint8_t padded[4][4][Q::kBytes];
    StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
      rows[q.value].Pad((block_count - b) * (Q::kBytes / 4), padded[q.value]);
      Q::template Group<0>(Q::Open(rows[q.value]), rows[q.value], &quads[q.value]);
    });
    // If a run has no further block, the block is written to `nowhere` instead of into the next
    // run.
    alignas(64) std::uint8_t nowhere[kBlockBytes];
    for (std::size_t p = block_count - b; p < 4; ++p) to[p] = nowhere;
    put();
  }
}

// Q: a PanelForm.
template <class Q, int kRows>
void QuantWideTile(const QuantWideStep& step, Ahead* next) {
  using Shape = PanelShape<Q>;
  constexpr std::size_t kBlockBytes = Shape::kVectors * 64;
  const std::size_t group_bytes = step.block_count * kBlockBytes;
  const std::uint8_t* block = step.panel;
  const auto vector = [&](std::size_t group, std::size_t v) KVD_INLINE_LAMBDA {
    return _mm512_loadu_si512(block + group * group_bytes + 64 * v);
  };
  Ahead ahead = *next;
  V totals[4][kRows][2];  // of the four runs
  for (std::size_t p = 0; p < 4; ++p) {
    V sums[kRows][2];
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA { sums[r.value][g.value] = Lanes::Zero(); });
    });
    for (std::size_t b = p; b < step.block_count; b += 4, block += kBlockBytes) {
      ahead.Step();
      I s[kRows][2];
      const auto start = [&](std::size_t half) KVD_INLINE_LAMBDA {
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          const QuantizedRow& row = step.x[r.value];
          I from = _mm512_setzero_si512();
          if constexpr (Q::kOffset != 0) {
            from = _mm512_set1_epi32(Q::kHalves && half == 0 ? row.half_starts[b] : row.starts[b]);
            if (half == 1) from = _mm512_sub_epi32(from, _mm512_set1_epi32(row.half_starts[b]));
          }
          s[r.value][0] = s[r.value][1] = from;
        });
      };
      const auto add = [&](auto first, auto count) KVD_INLINE_LAMBDA {
        StaticFor<count.value>([&](auto i) KVD_INLINE_LAMBDA {
          constexpr std::size_t kWord = first.value + i.value;
          const I w0 = vector(0, Shape::kBytesAt + kWord), w1 = vector(1, Shape::kBytesAt + kWord);
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
            int four = 0;
            __builtin_memcpy(&four, step.x[r.value].q + kQuantizedBlock * b + 4 * kWord, 4);
            const I x = _mm512_set1_epi32(four);
            s[r.value][0] = _mm512_dpbusd_epi32(s[r.value][0], w0, x);
            s[r.value][1] = _mm512_dpbusd_epi32(s[r.value][1], w1, x);
          });
        });
      };
      start(0);
      if constexpr (Q::kHalves) {
        add(Int<0>{}, Int<4>{});
        I first[kRows][2];
        StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
          const I part = vector(g.value, Shape::kParts);
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
            first[r.value][g.value] = _mm512_mullo_epi32(s[r.value][g.value], part);
          });
        });
        start(1);
        add(Int<4>{}, Int<4>{});
        StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
          const I part = vector(g.value, Shape::kParts + 1);
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
            I& sum = s[r.value][g.value];
            sum = _mm512_add_epi32(_mm512_mullo_epi32(sum, part), first[r.value][g.value]);
          });
        });
      } else {
        add(Int<0>{}, Int<8>{});
      }
      StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
        const V scale = _mm512_castsi512_ps(vector(g.value, 0));
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          V& sum = sums[r.value][g.value];
          sum = Lanes::Fma(_mm512_cvtepi32_ps(s[r.value][g.value]),
                           Lanes::Mul(scale, Lanes::Set(step.x[r.value].scales[b])), sum);
        });
        if constexpr (Q::kMinimums) {
          const V minimum = _mm512_castsi512_ps(vector(g.value, Shape::kMinimums));
          StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
            V& sum = sums[r.value][g.value];
            sum = Lanes::Fma(minimum, Lanes::Set(step.x[r.value].scaled_sums[b]), sum);
          });
        }
      });
      if constexpr (kHasHalfMinimums<Q>) {
        StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
          const QuantizedRow& row = step.x[r.value];
          const float scaled = static_cast<float>(row.half_starts[b]) * row.scales[b];
          StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
            V& sum = sums[r.value][g.value];
            sum = Lanes::Fma(_mm512_castsi512_ps(vector(g.value, Shape::kHalfMinimums)),
                             Lanes::Set(scaled), sum);
          });
        });
      }
    }
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      StaticFor<2>([&](auto g)
                       KVD_INLINE_LAMBDA { totals[p][r.value][g.value] = sums[r.value][g.value]; });
    });
  }
  *next = ahead;
  StaticFor<2>([&](auto g) KVD_INLINE_LAMBDA {
    const std::size_t before = 16 * g.value;
    const std::size_t left = step.out_count > before ? step.out_count - before : 0;
    const Lanes::Mask mask = left >= 16 ? Lanes::Mask{0xffff} : Lanes::FirstLanes(left);
    StaticFor<kRows>([&](auto r) KVD_INLINE_LAMBDA {
      const auto of = [&](int p) KVD_INLINE_LAMBDA { return totals[p][r.value][g.value]; };
      Lanes::Store(step.y[r.value] + step.out + before,
                   Lanes::Add(Lanes::Add(of(0), of(2)), Lanes::Add(of(1), of(3))), mask);
    });
  });
}

// As kernels/lanes/wide_quant.h needs it.
struct Panels {
  static constexpr std::size_t kGroupOuts = 16;
  template <class Q>
  static constexpr std::size_t kTileRows = Q::kHalves ? 4 : 6;
  template <class Q>
  static constexpr std::size_t kBlockBytes = PanelShape<Q>::kVectors * 64;
  template <class Q>
  using Form = FormOf<Q>;
  template <class Q>
  static KVD_ALWAYS_INLINE void Put(const MatmulArgs& args, std::size_t out, std::size_t last_out,
                                    std::uint8_t* group) {
    PutGroup<Q, false>(args, out, last_out, group);
  }
  template <class F, int kRows>
  static KVD_ALWAYS_INLINE void Tile(const QuantWideStep& step, Ahead* ahead) {
    QuantWideTile<F, kRows>(step, ahead);
  }
};

}  // namespace kvd::kernels::avx512
