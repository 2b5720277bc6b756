// Jamba (Lieber et al. 2024). The mixer is attention without rotation in layers that have KV heads,
// and Mamba in the other layers.
#include "tests/reference/attention.h"
#include "tests/reference/feed_forward.h"
#include "tests/reference/mamba.h"
#include "tests/reference/residual_model.h"

namespace kvd::reference {

std::unique_ptr<Model> ReadJamba(const ModelFile& file) {
  return ReadResidualModel(file, [&](std::size_t layer) {
    LayerParts parts{.mixer = {}, .feed_forward = FeedForward::Read(file, BlockName(layer))};
    if (file.CountOfLayer("attention.head_count_kv", layer) != 0) {
      parts.mixer = Attention::Read(file, layer);
    } else {
      parts.mixer = MixerOf(Mamba::Read(file, layer));
    }
    return parts;
  });
}

}  // namespace kvd::reference
