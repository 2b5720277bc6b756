// The parts that RWKV-6 and RWKV-7 share: norms, the channel mix, and the norms of heads.
#include "engine/forward/layers/rwkv.h"

#include "engine/forward/compute/activations.h"
#include "engine/forward/layers/rwkv_heads.h"
#include "engine/forward/layers/token_shift.h"

namespace kvd {

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
