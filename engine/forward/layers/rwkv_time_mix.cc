// The time mixes of RWKV-6 and RWKV-7.
#include "engine/forward/compute/row_functions.h"
#include "engine/forward/layers/rwkv.h"

namespace kvd {

// ---- rwkv6 time mix

namespace {

// The buffers of the five mixes of a token with the previous token, in the order of
// Rwkv6TimeMix::mix.
constexpr std::array kRwkv6Mixes = {Scratch::kForDecay, Scratch::kForKey, Scratch::kForValue,
                                    Scratch::kForReceptance, Scratch::kForGate};
enum MixOf : std::uint8_t { kW, kK, kV, kR, kG };

// mixes[i] = x + shift * (mix[i] + second[i](tanh(first(x + shift * mix_x))[i]))
std::array<const RowBuffer*, 5> MixTokens(ForwardPass& pass, const Rwkv6TimeMix& weights,
                                          const RowBuffer& x, const RowBuffer& shift) {
  const std::size_t width = pass.config().embedding_size;
  const std::size_t rank = pass.config().rwkv.mix_rank;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const RowBuffer& mixed = pass.Rows(Scratch::kDecay, {width});
  const RowBuffer& hidden = pass.Rows(Scratch::kUp, {5, rank});
  MixRows(pass, x, shift, weights.mix_x, mixed);
  pass.Project(weights.mix_first, mixed, hidden);
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    kernels.softcap(hidden[row], 1.0f, 5 * rank, hidden[row]);  // tanh
  }
  std::array<const RowBuffer*, 5> mixes;
  std::array<LinearJob, 5> jobs;
  for (std::size_t i = 0; i < mixes.size(); ++i) {
    mixes[i] = &pass.Rows(kRwkv6Mixes[i], {width});
    jobs[i] = {.linear = &weights.mix_second[i],
               .x = hidden[0] + i * rank,
               .x_stride = hidden.width(),
               .y = mixes[i]->pointers()};
  }
  RunLinear(pass.compute(), jobs, pass.row_count());
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < mixes.size(); ++i) {
      for (std::size_t row = first; row < last; ++row) {
        float* to = (*mixes[i])[row];
        for (std::size_t c = 0; c < width; ++c) {
          to[c] = x[row][c] + shift[row][c] * (to[c] + weights.mix[i][c]);
        }
      }
    }
  });
  return mixes;
}

// decay = exp(-exp(decay + lora(x)))
void Decay(ForwardPass& pass, const Rwkv6TimeMix& weights, const RowBuffer& x,
           const RowBuffer& decay) {
  const std::size_t width = pass.config().embedding_size;
  const std::size_t rank = pass.config().rwkv.decay_rank;
  const RowBuffer& hidden = pass.Rows(Scratch::kUp, {rank});
  pass.Project(weights.decay_lora.first, x, hidden);
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    pass.compute().kernels->softcap(hidden[row], 1.0f, rank, hidden[row]);
  }
  pass.Project(weights.decay_lora.second, hidden, decay);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* w = decay[row];
      for (std::size_t c = 0; c < width; ++c) w[c] += weights.decay[c];
      Exponentials(w, width, w);
      for (std::size_t c = 0; c < width; ++c) w[c] = -w[c];
      Exponentials(w, width, w);
    }
  });
}

}  // namespace

void RunRwkv6TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv6TimeMix& weights) {
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& x = LayerNormedStream(pass, weights.norm);
  const RowBuffer& shift = pass.Rows(Scratch::kShift, {width});
  RunTokenShift(pass, layer, 0, x, shift);
  const auto mixes = MixTokens(pass, weights, x, shift);
  const RowBuffer& r = pass.Rows(Scratch::kQ, {width});
  const RowBuffer& k = pass.Rows(Scratch::kK, {width});
  const RowBuffer& v = pass.Rows(Scratch::kV, {width});
  const RowBuffer& g = pass.Rows(Scratch::kGate, {width});
  const RowBuffer& w = pass.Rows(Scratch::kDecay, {width});
  const auto job = [&](const LinearView& linear, MixOf from, const RowBuffer& y) {
    const RowBuffer& mix = *mixes[from];
    return LinearJob{.linear = &linear, .x = mix[0], .x_stride = width, .y = y.pointers()};
  };
  const LinearJob projections[] = {job(weights.receptance, kR, r), job(weights.key, kK, k),
                                   job(weights.value, kV, v), job(weights.gate, kG, g)};
  RunLinear(pass.compute(), projections, pass.row_count());
  Decay(pass, weights, *mixes[kW], w);

  const RowBuffer& y = pass.Rows(Scratch::kMixerOutput, {width});
  ForHeads(pass, layer,
           [&](const kernels::HeadRows& head_rows, std::size_t first_row, std::size_t first) {
             pass.compute().kernels->scan_wkv6(head_rows, {.r = r.pointers() + first_row,
                                                           .k = k.pointers() + first_row,
                                                           .v = v.pointers() + first_row,
                                                           .w = w.pointers() + first_row,
                                                           .u = weights.first + first,
                                                           .y = y.pointers() + first_row,
                                                           .first = first});
           });
  NormHeads(pass, weights.group_norm, y);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      pass.compute().kernels->silu_multiply(g[row], y[row], width, y[row]);
    }
  });
  pass.AddToStream(weights.out, y);
}

// ---- rwkv7 time mix

namespace {

// The buffers of the six mixes of a token with the previous token, in the order of
// Rwkv7TimeMix::mix.
constexpr std::array kRwkv7Mixes = {Scratch::kForReceptance, Scratch::kForDecay, Scratch::kForKey,
                                    Scratch::kForValue,      Scratch::kForRate,  Scratch::kForGate};
constexpr float kLengthMin = 1e-12f;
constexpr float kDecayScale = -0.606531f;  // -e^(-1/2)

enum class Between : std::uint8_t { kNothing, kTanh, kLogistic };

// y = lora(x); y may be x.
void RunLowRank(ForwardPass& pass, const LowRank& lora, Between between, const RowBuffer& x,
                const RowBuffer& y) {
  const std::size_t rank = lora.first.weight.out_features;
  const RowBuffer& hidden = pass.Rows(Scratch::kUp, {rank});
  pass.Project(lora.first, x, hidden);
  for (std::size_t row = 0; row < pass.row_count(); ++row) {
    if (between == Between::kTanh) {
      pass.compute().kernels->softcap(hidden[row], 1.0f, rank, hidden[row]);
    } else if (between == Between::kLogistic) {
      Logistics(hidden[row], rank, hidden[row]);
    }
  }
  pass.Project(lora.second, hidden, y);
}

// The rows of one token, [E] each.
struct TokenRows {
  float* w;     // in: the low-rank part of the decay; out: the decay
  float* k;     // key
  float* rate;  // in: the low-rank part of the in-context learning rate
  float* a;     // out: minus the normed key
  float* b;     // out: the normed key times the rate
};

void Prepare(const ModelConfig& config, const Rwkv7TimeMix& weights, const TokenRows& rows) {
  const std::size_t width = config.embedding_size;
  const std::size_t size = config.rwkv.head_size;
  for (std::size_t c = 0; c < width; ++c) {
    rows.w[c] = kDecayScale * Logistic(rows.w[c] + weights.w0[c]);
    rows.rate[c] += weights.a0[c];
  }
  Exponentials(rows.w, width, rows.w);
  Logistics(rows.rate, width, rows.rate);
  for (std::size_t c = 0; c < width; ++c) rows.a[c] = rows.k[c] * weights.k_k[c];
  for (std::size_t at = 0; at < width; at += size) {
    ScaleToUnitLength(rows.a + at, size, kLengthMin);
  }
  for (std::size_t c = 0; c < width; ++c) {
    rows.b[c] = rows.a[c] * rows.rate[c];
    rows.a[c] = -rows.a[c];
    const float ka = rows.k[c] * weights.k_a[c];
    rows.k[c] += rows.rate[c] * ka - ka;
  }
}

// v += (v of the first layer - v) * logistic(v0 + lora(x))
void MixFirstValues(ForwardPass& pass, const Rwkv7TimeMix& weights, const RowBuffer& x,
                    const RowBuffer& first_values, const RowBuffer& v) {
  const std::size_t width = pass.config().embedding_size;
  RunLowRank(pass, weights.v, Between::kNothing, x, x);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      const float* from = first_values[row];
      float* to = v[row];
      for (std::size_t c = 0; c < width; ++c) {
        to[c] += (from[c] - to[c]) * Logistic(x[row][c] + weights.v0[c]);
      }
    }
  });
}

// y = (y + v * (sum of k * r * r_k over the head)) * g
void Finish(ForwardPass& pass, const Rwkv7TimeMix& weights, const RowBuffer& r, const RowBuffer& k,
            const RowBuffer& v, const RowBuffer& g, const RowBuffer& y) {
  const std::size_t width = pass.config().embedding_size;
  const std::size_t size = pass.config().rwkv.head_size;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t at = 0; at < width; at += size) {
        double bonus = 0;
        for (std::size_t c = at; c < at + size; ++c) {
          bonus += static_cast<double>(k[row][c]) * r[row][c] * weights.r_k[c];
        }
        const auto factor = static_cast<float>(bonus);
        for (std::size_t c = at; c < at + size; ++c) {
          y[row][c] = (y[row][c] + v[row][c] * factor) * g[row][c];
        }
      }
    }
  });
}

}  // namespace

void RunRwkv7TimeMix(ForwardPass& pass, std::size_t layer, const Rwkv7TimeMix& weights) {
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& x = LayerNormedStream(pass, weights.norm);
  const RowBuffer& shift = pass.Rows(Scratch::kShift, {width});
  RunTokenShift(pass, layer, 0, x, shift);
  std::array<const RowBuffer*, kRwkv7Mixes.size()> mixes;
  for (std::size_t i = 0; i < mixes.size(); ++i) {
    mixes[i] = &pass.Rows(kRwkv7Mixes[i], {width});
    MixRows(pass, x, shift, weights.mix[i], *mixes[i]);
  }
  const auto& [for_r, for_w, for_k, for_v, for_a, for_g] = mixes;
  const RowBuffer& r = pass.Rows(Scratch::kQ, {width});
  const RowBuffer& k = pass.Rows(Scratch::kK, {width});
  const RowBuffer& first_values = pass.Rows(Scratch::kFirstValues, {width});
  const bool is_first = weights.v0 == nullptr;
  const RowBuffer& v = is_first ? first_values : pass.Rows(Scratch::kV, {width});
  pass.Project(weights.receptance, *for_r, r);
  pass.Project(weights.key, *for_k, k);
  pass.Project(weights.value, *for_v, v);
  if (!is_first) MixFirstValues(pass, weights, *for_v, first_values, v);
  RunLowRank(pass, weights.w, Between::kTanh, *for_w, *for_w);
  RunLowRank(pass, weights.a, Between::kNothing, *for_a, *for_a);
  RunLowRank(pass, weights.g, Between::kLogistic, *for_g, *for_g);
  // The mixes for receptance and key are not used any more, so their buffers are reused.
  const RowBuffer& w = *for_w;
  const RowBuffer& a = *for_r;
  const RowBuffer& b = *for_k;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      Prepare(pass.config(), weights,
              {.w = w[row], .k = k[row], .rate = (*for_a)[row], .a = a[row], .b = b[row]});
    }
  });

  const RowBuffer& y = pass.Rows(Scratch::kMixerOutput, {width});
  ForHeads(pass, layer,
           [&](const kernels::HeadRows& head_rows, std::size_t first_row, std::size_t first) {
             pass.compute().kernels->scan_wkv7(head_rows, {.r = r.pointers() + first_row,
                                                           .w = w.pointers() + first_row,
                                                           .k = k.pointers() + first_row,
                                                           .v = v.pointers() + first_row,
                                                           .a = a.pointers() + first_row,
                                                           .b = b.pointers() + first_row,
                                                           .y = y.pointers() + first_row,
                                                           .first = first});
           });
  NormHeads(pass, weights.group_norm, y);
  Finish(pass, weights, r, k, v, *for_g, y);
  pass.AddToStream(weights.out, y);
}

}  // namespace kvd
