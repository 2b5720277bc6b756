// Panels of weights in bf16 (kernels/panels.h), for AVX-512.
#pragma once

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/lanes.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes/weights_ahead.h"
#include "kernels/panels.h"

namespace kvd::kernels::avx512 {

// Loads sixteen pairs of bf16 from 32 elements, of which the first n exist.
struct PairsOfBf16 {
  static KVD_ALWAYS_INLINE I Load(const std::uint8_t* from, std::size_t n) {
    const __mmask32 mask = n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
    return _mm512_maskz_loadu_epi16(mask, from);
  }
};

// Loads sixteen pairs of bf16 from 32 weights of f16. Round converts two vectors of floats to bf16.
template <class Round>
struct PairsOfF16 {
  static KVD_ALWAYS_INLINE I Load(const std::uint8_t* from, std::size_t n) {
    const I halves = PairsOfBf16::Load(from, n);
    return Round::Of(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                     _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
  }
};

// Turns sixteen pairs of bf16 of sixteen outputs: pair p of output o goes to lane o of pairs[p].
// load(o) returns the pairs of output o.
template <class F>
KVD_ALWAYS_INLINE void TurnPairs(const F& load, I (&pairs)[16]) {
  I words[4][4];  // [four outputs][output, then pair % 4]
  StaticFor<4>([&](auto q) KVD_INLINE_LAMBDA {
    StaticFor<4>([&](auto o) KVD_INLINE_LAMBDA {
      words[q.value][o.value] = load(std::size_t{4} * q.value + o.value);
    });
    Transposition::WithinLanes(words[q.value]);
  });
  StaticFor<4>([&](auto c) KVD_INLINE_LAMBDA {
    I v[4] = {words[0][c.value], words[1][c.value], words[2][c.value], words[3][c.value]};
    Transposition::Of128(v);
    StaticFor<4>([&](auto lane)
                     KVD_INLINE_LAMBDA { pairs[4 * lane.value + c.value] = v[lane.value]; });
  });
}

// The weights of the outputs [out, out + 16) of a product. An output >= last_out is a copy of
// output last_out - 1.
template <class Pairs>
struct GroupOfHalves {
  const MatmulArgs& args;
  std::size_t out;
  std::size_t last_out;

  // Loads elements [j, j + 32): pair p of output o goes to lane o of pairs[p].
  KVD_ALWAYS_INLINE void Load(std::size_t j, I (&pairs)[16]) const {
    const std::size_t n = args.in_features;
    const auto* const weights = static_cast<const std::uint8_t*>(args.weights);
    const auto load = [&](std::size_t o) KVD_INLINE_LAMBDA {
      const std::size_t row = out + o < last_out ? out + o : last_out - 1;
      return Pairs::Load(weights + 2 * (row * n + j), n - j);
    };
    TurnPairs(load, pairs);
  }

  // Prefetches the weights of the next group in memory order.
  KVD_ALWAYS_INLINE Ahead Next() const {
    const std::size_t row_bytes = 2 * args.in_features;
    return {static_cast<const std::uint8_t*>(args.weights) + (out + 16) * row_bytes, 16 * row_bytes,
            (args.in_features + 31) / 32};
  }
};

// Writes one group of a panel.
template <class Pairs>
void PutHalves(const MatmulArgs& args, std::size_t out, std::size_t last_out, std::uint8_t* to) {
  const GroupOfHalves<Pairs> group{args, out, last_out};
  Ahead ahead = group.Next();
  for (std::size_t j = 0; j < args.in_features; j += 32, to += 16 * 64) {
    I pairs[16];
    group.Load(j, pairs);
    ahead.Step();
    StaticFor<16>(
        [&](auto p) KVD_INLINE_LAMBDA { _mm512_storeu_si512(to + 64 * p.value, pairs[p.value]); });
  }
}

}  // namespace kvd::kernels::avx512
