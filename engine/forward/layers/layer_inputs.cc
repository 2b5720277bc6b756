#include "engine/forward/layers/layer_inputs.h"

#include <cmath>
#include <numbers>

namespace kvd {
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

}  // namespace kvd
