// Qwen3 with experts (Qwen Team 2025): attention with norms of the heads of queries and keys, and
// experts whose weights are divided by their sum.
#include "tests/reference/attention.h"
#include "tests/reference/experts.h"
#include "tests/reference/residual_model.h"

namespace kvd::reference {

std::unique_ptr<Model> ReadQwen3Moe(const ModelFile& file) {
  return ReadResidualModel(file, [&](std::size_t layer) {
    Attention attention = Attention::Read(file, layer);
    attention.rotation = {.pairs = Pairs::kHalves, .base = file.Real("rope.freq_base")};
    Experts experts = Experts::Read(file, layer);
    experts.has_normed_weights = true;
    return LayerParts{.mixer = attention, .feed_forward = experts};
  });
}

}  // namespace kvd::reference
