// Llama (Touvron et al. 2023): attention with rotated pairs of neighbours, and a feed-forward with
// a gate.
#include "tests/reference/attention.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/residual_model.h"

namespace kvd::reference {

std::unique_ptr<Model> ReadLlama(const ModelFile& file) {
  Rotation rotation{.pairs = Pairs::kNeighbours, .base = file.Real("rope.freq_base")};
  if (file.Has("rope_freqs.weight")) rotation.divisors = file.ReadVector("rope_freqs.weight");
  return ReadResidualModel(file, [&](std::size_t layer) {
    Attention attention = Attention::Read(file, layer);
    attention.rotation = rotation;
    return LayerParts{.mixer = attention,
                      .feed_forward = FeedForward::Read(file, BlockName(layer))};
  });
}

}  // namespace kvd::reference
