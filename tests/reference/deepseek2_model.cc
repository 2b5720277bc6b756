// DeepSeek V2 (DeepSeek-AI 2024): latent attention, a feed-forward in the first layers, and experts
// with a shared one in the others.
#include "tests/reference/experts.h"
#include "tests/reference/latent_attention.h"
#include "tests/reference/residual_model.h"

namespace kvd::reference {

std::unique_ptr<Model> ReadDeepseek2(const ModelFile& file) {
  return ReadResidualModel(file, [&](std::size_t layer) {
    LatentAttention attention = LatentAttention::Read(file, layer);
    attention.rotation = {.pairs = Pairs::kNeighbours, .base = file.Real("rope.freq_base")};
    LayerParts parts{.mixer = attention, .feed_forward = {}};
    if (layer < file.Count("leading_dense_block_count")) {
      parts.feed_forward = FeedForward::Read(file, BlockName(layer));
    } else {
      parts.feed_forward = Experts::Read(file, layer);
    }
    return parts;
  });
}

}  // namespace kvd::reference
