#include "engine/forward/layers/position_embedding.h"

namespace kvd {

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

}  // namespace kvd
