#include "engine/forward/compute/activations.h"
#include "engine/forward/layers/rwkv.h"
#include "engine/forward/layers/rwkv_heads.h"
#include "engine/forward/layers/token_shift.h"

namespace kvd {
namespace {

// The buffers of the five mixes of a token with the previous token, in the order of
// Rwkv6TimeMix::mix.
constexpr std::array kMixes = {Scratch::kForDecay, Scratch::kForKey, Scratch::kForValue,
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
    mixes[i] = &pass.Rows(kMixes[i], {width});
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

}  // namespace kvd
