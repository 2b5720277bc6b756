// Scans of linear attention (kernels/scan_args.h). Up to 64 values of a head are
// processed in parallel; the part of the state that belongs to these values stays in the cache
// while the rows are processed.
#pragma once

#include <cstddef>

#include "kernels/lanes/scan.h"
#include "kernels/lanes/static_for.h"
#include "kernels/scan_args.h"

namespace kvd::kernels {

// Divides the values of a head into strips and calls body(first value, vectors, lane) for each
// strip.
template <class L, class F>
KVD_ALWAYS_INLINE void ForStrips(std::size_t head_size, const F& body) {
  std::size_t first = 0;
  for (; first + 64 <= head_size; first += 64) body(first, Int<4>{}, Lane16<L, true>{});
  for (; first + 16 <= head_size; first += 16) body(first, Int<1>{}, Lane16<L, true>{});
  if (first < head_size) {
    body(first, Int<1>{}, Lane16<L, false>{L::FirstLanes(head_size - first)});
  }
}

// The state of a strip for one row: where the values of key i are read and written.
struct StripState {
  const float* from;
  float* to;
  std::size_t stride;
};

// Calls body(row, state) for each row of the strip that starts at value `first`.
template <class F>
KVD_ALWAYS_INLINE void ForStripRows(const HeadRows& head_rows, std::size_t first, const F& body) {
  for (std::size_t row = 0; row < head_rows.row_count; ++row) {
    const float* from = row == 0 ? head_rows.from : head_rows.to;
    body(row, StripState{from + first, head_rows.to + first, head_rows.head_size});
  }
}

template <class Isa>
void ScanWkv6(const HeadRows& head_rows, const Wkv6& head) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  ForStrips<L>(head_rows.head_size, [&](std::size_t first, auto vectors,
                                        auto lane) KVD_INLINE_LAMBDA {
    constexpr int kVectors = decltype(vectors)::value;
    ForStripRows(head_rows, first, [&](std::size_t row, const StripState& state) KVD_INLINE_LAMBDA {
      const float* r = head.r[row] + head.first;
      const float* k = head.k[row] + head.first;
      const float* w = head.w[row] + head.first;
      V v[kVectors], y[kVectors];
      StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
        v[n.value] = lane.Load(head.v[row] + head.first + first + 16 * n.value);
        y[n.value] = L::Zero();
      });
      for (std::size_t i = 0; i < head_rows.head_size; ++i) {
        const V ki = L::Set(k[i]), ri = L::Set(r[i]), wi = L::Set(w[i]), ui = L::Set(head.u[i]);
        StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
          const std::size_t at = i * state.stride + 16 * n.value;
          const V s = lane.Load(state.from + at);
          const V p = L::Mul(ki, v[n.value]);
          y[n.value] = L::Fma(ri, L::Fma(ui, p, s), y[n.value]);
          lane.Store(state.to + at, L::Fma(s, wi, p));
        });
      }
      StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
        lane.Store(head.y[row] + head.first + first + 16 * n.value, y[n.value]);
      });
    });
  });
}

// sums[n] = the sum over keys of S times weights[i].
template <class L, int kVectors, class Lane>
KVD_ALWAYS_INLINE void SumOverKeys(const StripState& state, const float* weights,
                                   std::size_t head_size, const Lane& lane,
                                   typename L::V (&sums)[kVectors]) {
  StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA { sums[n.value] = L::Zero(); });
  for (std::size_t i = 0; i < head_size; ++i) {
    const auto weight = L::Set(weights[i]);
    StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
      const auto s = lane.Load(state.from + i * state.stride + 16 * n.value);
      sums[n.value] = L::Fma(weight, s, sums[n.value]);
    });
  }
}

template <class Isa>
void ScanWkv7(const HeadRows& head_rows, const Wkv7& head) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  ForStrips<L>(head_rows.head_size, [&](std::size_t first, auto vectors,
                                        auto lane) KVD_INLINE_LAMBDA {
    constexpr int kVectors = decltype(vectors)::value;
    ForStripRows(head_rows, first, [&](std::size_t row, const StripState& state) KVD_INLINE_LAMBDA {
      const float* r = head.r[row] + head.first;
      const float* w = head.w[row] + head.first;
      const float* k = head.k[row] + head.first;
      const float* b = head.b[row] + head.first;
      V sa[kVectors], v[kVectors], y[kVectors];
      SumOverKeys<L>(state, head.a[row] + head.first, head_rows.head_size, lane, sa);
      StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
        v[n.value] = lane.Load(head.v[row] + head.first + first + 16 * n.value);
        y[n.value] = L::Zero();
      });
      for (std::size_t i = 0; i < head_rows.head_size; ++i) {
        const V wi = L::Set(w[i]), ki = L::Set(k[i]), bi = L::Set(b[i]), ri = L::Set(r[i]);
        StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
          const std::size_t at = i * state.stride + 16 * n.value;
          const V added = L::Fma(v[n.value], ki, L::Mul(sa[n.value], bi));
          const V s = L::Fma(lane.Load(state.from + at), wi, added);
          lane.Store(state.to + at, s);
          y[n.value] = L::Fma(s, ri, y[n.value]);
        });
      }
      StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
        lane.Store(head.y[row] + head.first + first + 16 * n.value, y[n.value]);
      });
    });
  });
}

template <class Isa>
void ScanDeltaRule(const HeadRows& head_rows, const DeltaRule& head) {
  using L = typename Isa::Lanes;
  using V = typename L::V;
  ForStrips<L>(head_rows.head_size, [&](std::size_t first, auto vectors,
                                        auto lane) KVD_INLINE_LAMBDA {
    constexpr int kVectors = decltype(vectors)::value;
    ForStripRows(head_rows, first, [&](std::size_t row, const StripState& state) KVD_INLINE_LAMBDA {
      const float* q = head.rows[row] + head.q_first;
      const float* k = head.rows[row] + head.k_first;
      const V decay = L::Set(head.decay[row][head.head]);
      const V beta = L::Set(head.beta[row][head.head]);
      V held[kVectors], delta[kVectors], y[kVectors];
      SumOverKeys<L>(state, k, head_rows.head_size, lane, held);
      StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
        const V v = lane.Load(head.rows[row] + head.v_first + first + 16 * n.value);
        delta[n.value] = L::Mul(L::Sub(v, L::Mul(held[n.value], decay)), beta);
        y[n.value] = L::Zero();
      });
      for (std::size_t i = 0; i < head_rows.head_size; ++i) {
        const V ki = L::Set(k[i]), qi = L::Set(q[i]);
        StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
          const std::size_t at = i * state.stride + 16 * n.value;
          const V s = L::Fma(ki, delta[n.value], L::Mul(lane.Load(state.from + at), decay));
          lane.Store(state.to + at, s);
          y[n.value] = L::Fma(s, qi, y[n.value]);
        });
      }
      StaticFor<kVectors>([&](auto n) KVD_INLINE_LAMBDA {
        lane.Store(head.y[row] + head.y_first + first + 16 * n.value, y[n.value]);
      });
    });
  });
}

}  // namespace kvd::kernels
