#include "engine/forward/layers/layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvd {

// ---- position embedding
void AddPositionEmbeddings(ForwardPass& pass) {
  const WeightView& embedding = pass.weights().position_embedding;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const std::size_t row_bytes = kernels::RowBytes(embedding.type, embedding.in_features);
  const RowBuffer& decoded = pass.Rows(Scratch::kProjected, {embedding.in_features});
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const StepSequence& sequence = pass.plan().sequences[s];
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      const std::size_t row = pass.sequences()[s].first_row + i;
      const auto position = static_cast<std::size_t>(sequence.first_new_pos.value) + i;
      kernels.decode_row(embedding.type, embedding.data + position * row_bytes, decoded[row],
                         embedding.in_features);
      kernels.add(pass.stream()[row], decoded[row], embedding.in_features, pass.stream()[row]);
    }
  }
}

// ---- layer inputs

namespace {

const RowBuffer& InputsOf(ForwardPass& pass) {
  return pass.Rows(Scratch::kLayerInputs,
                   {pass.config().layer_count, pass.config().layer_input_size});
}

}  // namespace

void ComputeLayerInputs(ForwardPass& pass) {
  const ModelConfig& config = pass.config();
  const std::size_t size = config.layer_input_size, layers = config.layer_count;
  if (size == 0) return;
  const LayerInputTable& weights = pass.weights().layer_inputs;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const RowBuffer& inputs = InputsOf(pass);
  const RowBuffer& table_rows = pass.Rows(Scratch::kGate, {layers, size});
  pass.Project(weights.projection, pass.stream(), inputs);

  const float embedding_factor = 1.0f / std::sqrt(static_cast<float>(config.embedding_size));
  const float table_factor = std::sqrt(static_cast<float>(size));
  const std::size_t row_bytes =
      kernels::RowBytes(weights.embedding.type, weights.embedding.in_features);
  for (std::size_t s = 0; s < pass.plan().count; ++s) {
    const SequenceRows& rows = pass.sequences()[s];
    const StepSequence& sequence = pass.plan().sequences[s];
    pass.ForRows(rows.row_count, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        float* const input = inputs[rows.first_row + i];
        float* const table_row = table_rows[rows.first_row + i];
        kernels.scale(input, embedding_factor, inputs.width(), input);
        for (std::size_t layer = 0; layer < layers; ++layer) {
          float* const part = input + layer * size;
          kernels.rms_norm(part, weights.norm, size, config.rms_epsilon, part);
        }
        const auto token = static_cast<std::size_t>(sequence.tokens[i]);
        kernels.decode_row(weights.embedding.type, weights.embedding.data + token * row_bytes,
                           table_row, inputs.width());
        kernels.scale(table_row, table_factor, inputs.width(), table_row);
        kernels.add(input, table_row, inputs.width(), input);
        kernels.scale(input, std::numbers::sqrt2_v<float> / 2.0f, inputs.width(), input);
      }
    });
  }
}

const RowBuffer& GatedLayerInput(ForwardPass& pass, std::size_t layer, const RowBuffer& x) {
  const std::size_t size = pass.config().layer_input_size;
  const RowBuffer& inputs = InputsOf(pass);
  const RowBuffer& gate = pass.Rows(Scratch::kGate, {size});
  pass.Project(pass.weights().layers[layer].layer_input.gate, x, gate);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      pass.compute().kernels->gelu_multiply(gate[row], inputs[row] + layer * size, size, gate[row]);
    }
  });
  return gate;
}

// ---- altup

namespace {

const RowBuffer& Streams(ForwardPass& pass) {
  return pass.Rows(Scratch::kStreams, {kStreamCount, pass.config().embedding_size});
}

const RowBuffer& Predictions(ForwardPass& pass) {
  return pass.Rows(Scratch::kPredictions, {kStreamCount, pass.config().embedding_size});
}

template <class Task>
void ForEachRow(ForwardPass& pass, const Task& task) {
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) task(row);
  });
}

float Length(const float* x, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return static_cast<float>(std::sqrt(sum));
}

// Scales the row x to the length of the row `model`; a row of zeros is not changed.
void Rescale(const kernels::KernelTable& kernels, const float* model, std::size_t n, float* x) {
  const float length = Length(x, n);
  if (length != 0.0f) kernels.scale(x, Length(model, n) / length, n, x);
}

// tanh(router(norm(x) / n)): [rows, kStreamCount], in Scratch::kRate.
const RowBuffer& RouteStreams(ForwardPass& pass, const AltupLayerWeights& weights,
                              const RowBuffer& x) {
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& normed = pass.Rows(Scratch::kNormed, {width});
  const RowBuffer& routed = pass.Rows(Scratch::kRate, {kStreamCount});
  ForEachRow(pass, [&](std::size_t row) {
    const kernels::KernelTable& kernels = *pass.compute().kernels;
    kernels.rms_norm(x[row], weights.router_norm, width, pass.config().rms_epsilon, normed[row]);
    kernels.scale(normed[row], 1.0f / static_cast<float>(width), width, normed[row]);
  });
  pass.Project(weights.router, normed, routed);
  ForEachRow(pass, [&](std::size_t row) {
    pass.compute().kernels->softcap(routed[row], 1.0f, kStreamCount, routed[row]);  // tanh
  });
  return routed;
}

void CopyToStream(ForwardPass& pass, const RowBuffer& first_of) {
  ForEachRow(pass, [&](std::size_t row) {
    std::copy_n(first_of[row], pass.config().embedding_size, pass.stream()[row]);
  });
}

}  // namespace

void SpreadStreams(ForwardPass& pass) {
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& streams = Streams(pass);
  const RowBuffer& projected = pass.Rows(Scratch::kProjected, {width});
  ForEachRow(pass, [&](std::size_t row) { std::copy_n(pass.stream()[row], width, streams[row]); });
  for (std::size_t s = 1; s < kStreamCount; ++s) {
    pass.Project(pass.weights().altup.spread[s - 1], pass.stream(), projected);
    ForEachRow(pass, [&](std::size_t row) {
      Rescale(*pass.compute().kernels, streams[row], width, projected[row]);
      std::copy_n(projected[row], width, streams[row] + s * width);
    });
  }
}

void PredictStreams(ForwardPass& pass, std::size_t layer) {
  const AltupLayerWeights& weights = pass.weights().layers[layer].altup;
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& streams = Streams(pass);
  const RowBuffer& predictions = Predictions(pass);
  CopyToStream(pass, streams);
  const RowBuffer& mixes = pass.Rows(Scratch::kDecay, {kStreamCount, kStreamCount});
  pass.Project(weights.predict, RouteStreams(pass, weights, pass.stream()), mixes);
  ForEachRow(pass, [&](std::size_t row) {
    const float* const from = streams[row];
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      float* const to = predictions[row] + s * width;
      std::copy_n(from + s * width, width, to);
      for (std::size_t j = 0; j < kStreamCount; ++j) {
        const float mix = mixes[row][s * kStreamCount + j];
        for (std::size_t i = 0; i < width; ++i) to[i] += mix * from[j * width + i];
      }
    }
  });
  CopyToStream(pass, predictions);
}

const RowBuffer& RunLaurel(ForwardPass& pass, std::size_t layer, const RowBuffer& h) {
  const AltupLayerWeights& weights = pass.weights().layers[layer].altup;
  const std::size_t width = pass.config().embedding_size;
  const RowBuffer& low = pass.Rows(Scratch::kUp, {kLaurelRank});
  const RowBuffer& laurel = pass.Rows(Scratch::kConvolved, {width});
  pass.Project(weights.laurel_down, h, low);
  pass.Project(weights.laurel_up, low, laurel);
  ForEachRow(pass, [&](std::size_t row) {
    const kernels::KernelTable& kernels = *pass.compute().kernels;
    kernels.rms_norm(laurel[row], weights.laurel_norm, width, pass.config().rms_epsilon,
                     laurel[row]);
    kernels.add(h[row], laurel[row], width, laurel[row]);
  });
  return laurel;
}

void CorrectStreams(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  const std::size_t width = pass.config().embedding_size;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const RowBuffer& streams = Streams(pass);
  const RowBuffer& predictions = Predictions(pass);
  const RowBuffer& factors = pass.Rows(Scratch::kDecay, {kStreamCount});
  pass.Project(weights.altup.correct, RouteStreams(pass, weights.altup, pass.stream()), factors);
  const RowBuffer& scaled = pass.Rows(Scratch::kMixerInput, {width});
  ForEachRow(pass, [&](std::size_t row) {
    const float* const first = predictions[row];
    const float* const computed = pass.stream()[row];
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      const float factor = 1.0f + factors[row][s];
      const float* const predicted = first + s * width;
      float* const to = streams[row] + s * width;
      for (std::size_t i = 0; i < width; ++i) {
        to[i] = predicted[i] + factor * (computed[i] - first[i]);
      }
    }
    for (std::size_t i = 0; i < width; ++i) {
      scaled[row][i] = streams[row][i] * weights.altup.scale[i];
    }
  });
  const RowBuffer& projected = pass.Rows(Scratch::kProjected, {width});
  pass.Project(weights.layer_input.out, GatedLayerInput(pass, layer, scaled), projected);
  ForEachRow(pass, [&](std::size_t row) {
    kernels.rms_norm(projected[row], weights.layer_input.post_norm, width,
                     pass.config().rms_epsilon, projected[row]);
    for (std::size_t s = 1; s < kStreamCount; ++s) {
      kernels.add(streams[row] + s * width, projected[row], width, streams[row] + s * width);
    }
  });
}

void CollectStreams(ForwardPass& pass) {
  const std::size_t width = pass.config().embedding_size;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const RowBuffer& streams = Streams(pass);
  const RowBuffer& source = pass.Rows(Scratch::kMixerInput, {width});
  const RowBuffer& projected = pass.Rows(Scratch::kProjected, {width});
  CopyToStream(pass, streams);
  for (std::size_t s = 1; s < kStreamCount; ++s) {
    ForEachRow(pass,
               [&](std::size_t row) { std::copy_n(streams[row] + s * width, width, source[row]); });
    pass.Project(pass.weights().altup.collect[s - 1], source, projected);
    ForEachRow(pass, [&](std::size_t row) {
      Rescale(kernels, streams[row], width, projected[row]);
      kernels.add(pass.stream()[row], projected[row], width, pass.stream()[row]);
    });
  }
  ForEachRow(pass, [&](std::size_t row) {
    kernels.scale(pass.stream()[row], 1.0f / static_cast<float>(kStreamCount), width,
                  pass.stream()[row]);
  });
}

}  // namespace kvd
