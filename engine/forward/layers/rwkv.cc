#include "engine/forward/layers/rwkv.h"

#include <algorithm>

#include "engine/forward/compute/row_functions.h"

namespace kvd {

// ---- token shift
void RunTokenShift(ForwardPass& pass, std::size_t layer, std::size_t state_offset,
                   const RowBuffer& x, const RowBuffer& difference) {
  const std::size_t width = pass.config().embedding_size;
  for (std::size_t s = 0; s < pass.sequences().size(); ++s) {
    const SequenceRows& rows = pass.sequences()[s];
    const LayerState state = pass.State(s, layer);
    const float* before = state.from == nullptr ? nullptr : state.from + state_offset;
    for (std::size_t i = 0; i < rows.row_count; ++i) {
      const float* row = x[rows.first_row + i];
      float* out = difference[rows.first_row + i];
      if (before == nullptr) {
        for (std::size_t c = 0; c < width; ++c) out[c] = 0.0f - row[c];
      } else {
        for (std::size_t c = 0; c < width; ++c) out[c] = before[c] - row[c];
      }
      before = row;
    }
    std::copy_n(before, width, state.to + state_offset);
    pass.CheckFinite(s, state.to + state_offset, width);
  }
}

void MixRows(ForwardPass& pass, const RowBuffer& x, const RowBuffer& difference, const float* mix,
             const RowBuffer& y) {
  const std::size_t width = pass.config().embedding_size;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      const float* from = x[row];
      const float* shift = difference[row];
      float* to = y[row];
      for (std::size_t c = 0; c < width; ++c) to[c] = from[c] + shift[c] * mix[c];
    }
  });
}

// ---- rwkv
// The parts that RWKV-6 and RWKV-7 share: norms, the channel mix, and the norms of heads.
std::size_t RwkvStateFloats(const ModelConfig& config) {
  return std::size_t{config.embedding_size} * (2 + config.rwkv.head_size);
}

void NormRows(ForwardPass& pass, std::span<const float* const> rows, const NormWeights& weights,
              float* const* out) {
  const ModelConfig& config = pass.config();
  pass.ForRows(rows.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      LayerNorm(rows[row], weights, config.embedding_size, config.layer_norm_epsilon, out[row]);
    }
  });
}

void NormStream(ForwardPass& pass, const NormWeights& weights) {
  const RowBuffer& stream = pass.stream();
  NormRows(pass, {stream.pointers(), pass.row_count()}, weights, stream.pointers());
}

const RowBuffer& LayerNormedStream(ForwardPass& pass, const NormWeights& weights) {
  const RowBuffer& normed = pass.Rows(Scratch::kNormed, {pass.config().embedding_size});
  NormRows(pass, {pass.stream().pointers(), pass.row_count()}, weights, normed.pointers());
  return normed;
}

void NormHeads(ForwardPass& pass, const NormWeights& weights, const RowBuffer& y) {
  constexpr float kEpsilon = 64e-5f;
  const std::size_t size = pass.config().rwkv.head_size;
  const std::size_t width = pass.config().embedding_size;
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t at = 0; at < width; at += size) {
        LayerNorm(y[row] + at, {weights.weight + at, weights.bias + at}, size, kEpsilon,
                  y[row] + at);
      }
    }
  });
}

void RunRwkvChannelMix(ForwardPass& pass, std::size_t layer, const RwkvChannelMix& weights) {
  const std::size_t width = pass.config().embedding_size;
  const std::size_t hidden = pass.config().feed_forward_size[layer];
  const RowBuffer& x = LayerNormedStream(pass, weights.norm);
  const RowBuffer& shift = pass.Rows(Scratch::kShift, {width});
  RunTokenShift(pass, layer, width, x, shift);
  const RowBuffer& mixed = pass.Rows(Scratch::kForKey, {width});
  const RowBuffer& key = pass.Rows(Scratch::kUp, {hidden});
  MixRows(pass, x, shift, weights.mix_k, mixed);
  pass.Project(weights.key, mixed, key);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) SquaredRelu(key[row], hidden, key[row]);
  });
  if (weights.mix_r == nullptr) return pass.AddToStream(weights.value, key);
  const RowBuffer& receptance = pass.Rows(Scratch::kGate, {width});
  MixRows(pass, x, shift, weights.mix_r, mixed);
  pass.Project(weights.receptance, mixed, receptance);
  const RowBuffer& value = pass.Rows(Scratch::kProjected, {width});
  pass.Project(weights.value, key, value);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* r = receptance[row];
      float* stream = pass.stream()[row];
      Logistics(r, width, r);
      for (std::size_t c = 0; c < width; ++c) stream[c] += r[c] * value[row][c];
    }
  });
}

}  // namespace kvd
