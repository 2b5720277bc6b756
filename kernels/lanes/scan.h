// Scans of state-space layers and the convolution before them (kernels/scan_args.h).
//
// Sixteen channels are processed at a time, in tiles of rows. Quantities of one channel (step,
// input, gate) are computed with sixteen channels per vector, and the states of a channel with
// sixteen states per vector. If the states fit into registers, they stay there over the tile.
#pragma once

#include <cstddef>

#include "kernels/lanes/static_for.h"
#include "kernels/scan_args.h"

namespace kvd::kernels {

inline constexpr std::size_t kScanTileRows = 16;

template <class L>
KVD_ALWAYS_INLINE typename L::V Softplus(typename L::V x) {
  using V = typename L::V;
  const V e = L::Exp(L::Min(x, L::Negate(x)));
  const V s = L::Div(e, L::Add(L::Set(2.0f), e));
  const V q = L::Mul(s, s);
  V p = L::Set(kSoftplusC[0]);
  StaticFor<5>([&](auto i)
                   KVD_INLINE_LAMBDA { p = L::Fma(p, q, L::Set(kSoftplusC[i.value + 1])); });
  const V t = L::Add(s, s);
  return L::Add(L::Max(x, L::Zero()), L::Fma(L::Mul(t, q), p, t));
}

template <class L>
KVD_ALWAYS_INLINE typename L::V Silu(typename L::V x) {
  return L::Div(x, L::Add(L::Set(1.0f), L::Exp(L::Negate(x))));
}

// Sixteen floats if kWhole, otherwise those of the mask.
template <class L, bool kWhole>
struct Lane16 {
  typename L::Mask mask;
  KVD_ALWAYS_INLINE typename L::V Load(const float* from) const {
    if constexpr (kWhole) return L::Load(from);
    return L::Load(from, mask);
  }
  KVD_ALWAYS_INLINE void Store(float* to, typename L::V v) const {
    if constexpr (kWhole) return L::Store(to, v);
    L::Store(to, v, mask);
  }
};

// Intermediate results of one tile: for each row, one number for each of sixteen channels.
struct alignas(64) ScanTile {
  std::size_t first_row;
  std::size_t row_count;
  float steps[kScanTileRows][16];   // ChannelScan only, by row and channel
  float decays[16];                 // HeadScan only, by row
  float inputs[kScanTileRows][16];  // x * step
  float sums[kScanTileRows][16];    // Dot(state, c)
};

// ------------------------------------------------------------------- states, with decays by state

// Scans kChannels channels of sixteen states each; the first is lane `lane` of the tile.
template <class L, int kChannels>
KVD_ALWAYS_INLINE void ScanSixteenStates(const ChannelScan& scan, std::size_t channel,
                                         std::size_t lane, ScanTile& tile) {
  using V = typename L::V;
  static_assert(kChannels == 4);
  V state[kChannels], a[kChannels];
  StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
    state[i.value] = L::Load(scan.state + (channel + i.value) * 16);
    a[i.value] = L::Load(scan.a + (channel + i.value) * 16);
  });
  for (std::size_t r = 0; r < tile.row_count; ++r) {
    const V b = L::Load(scan.b.rows[tile.first_row + r] + scan.b.first);
    const V c = L::Load(scan.c.rows[tile.first_row + r] + scan.c.first);
    V sums[kChannels];
    StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
      const V step = L::Set(tile.steps[r][lane + i.value]);
      const V decayed = L::Mul(state[i.value], L::Exp(L::Mul(step, a[i.value])));
      state[i.value] = L::Fma(b, L::Set(tile.inputs[r][lane + i.value]), decayed);
      sums[i.value] = L::Fma(state[i.value], c, L::Zero());
    });
    L::Totals4(sums, &tile.sums[r][lane]);
  }
  StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
    L::Store(scan.state + (channel + i.value) * 16, state[i.value]);
  });
}

// Scans one row of one channel with any number of states. decay(load) returns the decays of the
// states [k, k + 16); `load` reads those of the sixteen numbers that exist from an array.
template <class L, class Decay>
KVD_ALWAYS_INLINE float ScanRow(float* state, std::size_t n, const float* b, const float* c,
                                float input, const Decay& decay) {
  using V = typename L::V;
  const V x = L::Set(input);
  V sums = L::Zero();
  std::size_t k = 0;
  for (; k + 16 <= n; k += 16) {
    const V decays = decay([&](const float* from) KVD_INLINE_LAMBDA { return L::Load(from + k); });
    const V s = L::Fma(L::Load(b + k), x, L::Mul(L::Load(state + k), decays));
    L::Store(state + k, s);
    sums = L::Fma(s, L::Load(c + k), sums);
  }
  if (k < n) {
    const auto mask = L::FirstLanes(n - k);
    const V decays =
        decay([&](const float* from) KVD_INLINE_LAMBDA { return L::Load(from + k, mask); });
    const V s = L::Fma(L::Load(b + k, mask), x, L::Mul(L::Load(state + k, mask), decays));
    L::Store(state + k, s, mask);
    sums = L::Fma(s, L::Load(c + k, mask), sums, mask);
  }
  return L::Total(sums);
}

template <class L>
KVD_ALWAYS_INLINE void ScanStates(const ChannelScan& scan, std::size_t first, std::size_t count,
                                  ScanTile& tile) {
  const std::size_t n = scan.state_count;
  std::size_t lane = 0;
  if (n == 16) {
    for (; lane + 4 <= count; lane += 4) ScanSixteenStates<L, 4>(scan, first + lane, lane, tile);
  }
  for (; lane < count; ++lane) {
    const float* a = scan.a + (first + lane) * n;
    for (std::size_t r = 0; r < tile.row_count; ++r) {
      const std::size_t row = tile.first_row + r;
      const auto step = L::Set(tile.steps[r][lane]);
      tile.sums[r][lane] =
          ScanRow<L>(scan.state + (first + lane) * n, n, scan.b.rows[row] + scan.b.first,
                     scan.c.rows[row] + scan.c.first, tile.inputs[r][lane],
                     [&](auto load) KVD_INLINE_LAMBDA { return L::Exp(L::Mul(step, load(a))); });
    }
  }
}

// ------------------------------------------------------------------------- states, with one decay

// Scans kChannels channels of kGroups * 16 states each; the first is lane `lane` of the tile.
template <class L, int kGroups, int kChannels>
KVD_ALWAYS_INLINE void ScanGroups(const HeadScan& scan, std::size_t channel, std::size_t lane,
                                  ScanTile& tile) {
  using V = typename L::V;
  V state[kChannels][kGroups];
  float* const at = scan.state + channel * kGroups * 16;
  StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
    StaticFor<kGroups>([&](auto g) KVD_INLINE_LAMBDA {
      state[i.value][g.value] = L::Load(at + (i.value * kGroups + g.value) * 16);
    });
  });
  for (std::size_t r = 0; r < tile.row_count; ++r) {
    const float* b = scan.b.rows[tile.first_row + r] + scan.b.first;
    const float* c = scan.c.rows[tile.first_row + r] + scan.c.first;
    const V decay = L::Set(tile.decays[r]);
    V x[kChannels], sums[4];
    StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
      x[i.value] = L::Set(tile.inputs[r][lane + i.value]);
      sums[i.value] = L::Zero();
    });
    StaticFor<kGroups>([&](auto g) KVD_INLINE_LAMBDA {
      const V bs = L::Load(b + 16 * g.value), cs = L::Load(c + 16 * g.value);
      StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
        V& s = state[i.value][g.value];
        s = L::Fma(bs, x[i.value], L::Mul(s, decay));
        sums[i.value] = L::Fma(s, cs, sums[i.value]);
      });
    });
    if constexpr (kChannels == 4) {
      L::Totals4(sums, &tile.sums[r][lane]);
    } else {
      StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
        tile.sums[r][lane + i.value] = L::Total(sums[i.value]);
      });
    }
  }
  StaticFor<kChannels>([&](auto i) KVD_INLINE_LAMBDA {
    StaticFor<kGroups>([&](auto g) KVD_INLINE_LAMBDA {
      L::Store(at + (i.value * kGroups + g.value) * 16, state[i.value][g.value]);
    });
  });
}

template <class L>
KVD_ALWAYS_INLINE void ScanStates(const HeadScan& scan, std::size_t first, std::size_t count,
                                  ScanTile& tile) {
  const std::size_t n = scan.state_count;
  std::size_t lane = 0;
  const auto whole = [&](auto groups, auto channels) KVD_INLINE_LAMBDA {
    for (; lane + channels.value <= count; lane += channels.value) {
      ScanGroups<L, groups.value, channels.value>(scan, first + lane, lane, tile);
    }
  };
  if (n == 16) whole(Int<1>{}, Int<4>{});
  if (n == 32) whole(Int<2>{}, Int<4>{});
  if (n == 64) whole(Int<4>{}, Int<4>{});
  if (n == 128) whole(Int<8>{}, Int<2>{});
  for (; lane < count; ++lane) {
    for (std::size_t r = 0; r < tile.row_count; ++r) {
      const std::size_t row = tile.first_row + r;
      const auto decay = L::Set(tile.decays[r]);
      tile.sums[r][lane] =
          ScanRow<L>(scan.state + (first + lane) * n, n, scan.b.rows[row] + scan.b.first,
                     scan.c.rows[row] + scan.c.first, tile.inputs[r][lane],
                     [&](auto /*load*/) KVD_INLINE_LAMBDA { return decay; });
    }
  }
}

// ------------------------------------------------------------------------------------------ a tile

// inputs = x * step; steps(r) returns the steps of sixteen channels.
template <class L, class Lane, class Scan, class Steps>
KVD_ALWAYS_INLINE void TakeInputs(const Scan& scan, std::size_t first, const Lane& lane,
                                  const Steps& steps, ScanTile& tile) {
  for (std::size_t r = 0; r < tile.row_count; ++r) {
    const auto x = lane.Load(scan.x.rows[tile.first_row + r] + scan.x.first + first);
    L::Store(tile.inputs[r], L::Mul(x, steps(r)));
  }
}

// y = Silu(gate) * (sum + x * d)
template <class L, class Lane, class Scan>
KVD_ALWAYS_INLINE void PutResults(const Scan& scan, std::size_t first, const Lane& lane,
                                  typename L::V d, const ScanTile& tile) {
  using V = typename L::V;
  for (std::size_t r = 0; r < tile.row_count; ++r) {
    const std::size_t row = tile.first_row + r;
    const V x = lane.Load(scan.x.rows[row] + scan.x.first + first);
    const V gate = lane.Load(scan.gate.rows[row] + scan.gate.first + first);
    const V sum = L::Fma(x, d, L::Load(tile.sums[r]));
    lane.Store(scan.y[row] + scan.y_first + first, L::Mul(Silu<L>(gate), sum));
  }
}

// Calls body(first, count, lane) for sixteen channels at a time.
template <class L, class F>
KVD_ALWAYS_INLINE void ForLanes(std::size_t channel_count, const F& body) {
  std::size_t first = 0;
  for (; first + 16 <= channel_count; first += 16) body(first, 16, Lane16<L, true>{});
  if (first < channel_count) {
    const std::size_t count = channel_count - first;
    body(first, count, Lane16<L, false>{L::FirstLanes(count)});
  }
}

// Calls body() for each tile of the rows.
template <class F>
KVD_ALWAYS_INLINE void ForTiles(std::size_t row_count, ScanTile& tile, const F& body) {
  for (tile.first_row = 0; tile.first_row < row_count; tile.first_row += kScanTileRows) {
    const std::size_t left = row_count - tile.first_row;
    tile.row_count = left < kScanTileRows ? left : kScanTileRows;
    body();
  }
}

template <class Isa>
void ScanChannels(const ChannelScan& scan) {
  using L = typename Isa::Lanes;
  ScanTile tile;
  ForTiles(scan.row_count, tile, [&]() KVD_INLINE_LAMBDA {
    ForLanes<L>(
        scan.channel_count, [&](std::size_t first, std::size_t count, auto lane) KVD_INLINE_LAMBDA {
          for (std::size_t r = 0; r < tile.row_count; ++r) {
            const float* dt = scan.dt.rows[tile.first_row + r] + scan.dt.first + first;
            L::Store(tile.steps[r], Softplus<L>(lane.Load(dt)));
          }
          TakeInputs<L>(
              scan, first, lane,
              [&](std::size_t r) KVD_INLINE_LAMBDA { return L::Load(tile.steps[r]); }, tile);
          ScanStates<L>(scan, first, count, tile);
          PutResults<L>(scan, first, lane, lane.Load(scan.d + first), tile);
        });
  });
}

template <class Isa>
void ScanHead(const HeadScan& scan) {
  using L = typename Isa::Lanes;
  static_assert(kScanTileRows == 16);
  ScanTile tile;
  ForTiles(scan.row_count, tile, [&]() KVD_INLINE_LAMBDA {
    float steps[16] = {};
    for (std::size_t r = 0; r < tile.row_count; ++r) {
      steps[r] = scan.dt.rows[tile.first_row + r][scan.dt.first] + scan.dt_bias;
    }
    const auto step = Softplus<L>(L::Load(steps));
    L::Store(steps, step);
    L::Store(tile.decays, L::Exp(L::Mul(step, L::Set(scan.a))));
    ForLanes<L>(scan.channel_count,
                [&](std::size_t first, std::size_t count, auto lane) KVD_INLINE_LAMBDA {
                  TakeInputs<L>(
                      scan, first, lane,
                      [&](std::size_t r) KVD_INLINE_LAMBDA { return L::Set(steps[r]); }, tile);
                  ScanStates<L>(scan, first, count, tile);
                  PutResults<L>(scan, first, lane, L::Set(scan.d), tile);
                });
  });
}

// ------------------------------------------------------------------------------------- convolution

// Convolves kVectors * 16 channels; the last rows are kept in registers.
template <class L, int kWidth, int kVectors, class Lane>
KVD_ALWAYS_INLINE void ConvolveLanes(const ChannelConvolution& work, std::size_t first,
                                     std::size_t count, const Lane& lane) {
  using V = typename L::V;
  float turned[kWidth][16 * kVectors] = {};
  for (std::size_t c = 0; c < count; ++c) {
    StaticFor<kWidth>([&](auto i) KVD_INLINE_LAMBDA {
      turned[i.value][c] = work.taps[(first + c) * kWidth + i.value];
    });
  }
  V taps[kVectors][kWidth], window[kVectors][kWidth], bias[kVectors];
  StaticFor<kVectors>([&](auto v) KVD_INLINE_LAMBDA {
    bias[v.value] = work.bias == nullptr ? L::Zero() : lane.Load(work.bias + first + 16 * v.value);
    StaticFor<kWidth>([&](auto i) KVD_INLINE_LAMBDA {
      taps[v.value][i.value] = L::Load(turned[i.value] + 16 * v.value);
      // The last element is for the new row.
      window[v.value][i.value] = i.value + 1 == kWidth
                                     ? L::Zero()
                                     : lane.Load(work.before[i.value] + first + 16 * v.value);
    });
  });
  for (std::size_t row = 0; row < work.row_count; ++row) {
    const float* x = work.x.rows[row] + work.x.first + first;
    float* y = work.y[row] + work.y_first + first;
    StaticFor<kVectors>([&](auto v) KVD_INLINE_LAMBDA {
      window[v.value][kWidth - 1] = lane.Load(x + 16 * v.value);
      V sum = bias[v.value];
      StaticFor<kWidth>([&](auto i) KVD_INLINE_LAMBDA {
        sum = L::Fma(taps[v.value][i.value], window[v.value][i.value], sum);
      });
      lane.Store(y + 16 * v.value, work.is_activated ? Silu<L>(sum) : sum);
      StaticFor<kWidth - 1>([&](auto i) KVD_INLINE_LAMBDA {
        window[v.value][i.value] = window[v.value][i.value + 1];
      });
    });
  }
}

// Convolves sixteen channels with any number of taps.
template <class L, class Lane>
KVD_ALWAYS_INLINE void ConvolveWide(const ChannelConvolution& work, std::size_t first,
                                    std::size_t count, const Lane& lane) {
  using V = typename L::V;
  const std::size_t kept = work.width - 1;
  for (std::size_t row = 0; row < work.row_count; ++row) {
    V sum = work.bias == nullptr ? L::Zero() : lane.Load(work.bias + first);
    for (std::size_t i = 0; i < work.width; ++i) {
      const std::size_t at = row + i;
      const float* x = at < kept ? work.before[at] : work.x.rows[at - kept] + work.x.first;
      float taps[16] = {};
      for (std::size_t c = 0; c < count; ++c) taps[c] = work.taps[(first + c) * work.width + i];
      sum = L::Fma(L::Load(taps), lane.Load(x + first), sum);
    }
    lane.Store(work.y[row] + work.y_first + first, work.is_activated ? Silu<L>(sum) : sum);
  }
}

template <class Isa>
void Convolve(const ChannelConvolution& work) {
  using L = typename Isa::Lanes;
  const auto narrow = [&](auto width) KVD_INLINE_LAMBDA {
    std::size_t first = 0;
    for (; first + 32 <= work.channel_count; first += 32) {
      ConvolveLanes<L, width.value, 2>(work, first, 32, Lane16<L, true>{});
    }
    for (; first < work.channel_count; first += 16) {
      const std::size_t left = work.channel_count - first;
      const std::size_t count = left < 16 ? left : 16;
      ConvolveLanes<L, width.value, 1>(work, first, count, Lane16<L, false>{L::FirstLanes(count)});
    }
  };
  switch (work.width) {
    case 2: return narrow(Int<2>{});
    case 3: return narrow(Int<3>{});
    case 4: return narrow(Int<4>{});
    default:
      ForLanes<L>(work.channel_count,
                  [&](std::size_t first, std::size_t count, auto lane)
                      KVD_INLINE_LAMBDA { ConvolveWide<L>(work, first, count, lane); });
  }
}

}  // namespace kvd::kernels
