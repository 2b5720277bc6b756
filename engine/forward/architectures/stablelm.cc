// x += Attention(LayerNorm(x)), x += FeedForward(LayerNorm(x)) (Stability AI 2024). The largest
// model has no norm of the feed-forward: x += Attention(h) + FeedForward(h) with h = LayerNorm(x).
// The largest model also norms each head of q and k. Names and defaults are those of llama.cpp
// (src/models/stablelm.cpp), which decides between the two forms by the tensor alone.
#include "engine/forward/architectures/stablelm.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
namespace {

// Attention and feed-forward are parallel unless the file has a norm of the feed-forward. A file
// that declares the sequential form must have a norm of the feed-forward.
Status ReadForm(const ConfigReader& reader, ModelConfig& config) {
  KVD_TRY(const bool may_be_parallel,
          reader.file().GetBoolOr(reader.Key("use_parallel_residual"), true));
  config.is_parallel =
      may_be_parallel && reader.file().FindTensor("blk.0.ffn_norm.weight") == nullptr;
  return {};
}

constexpr TransformerTraits kStableLmTraits = {.qk_norm = QkNorm::kHeadsApart,
                                               .qk_norm_is_optional = true,
                                               .has_layer_norms = true,
                                               .has_norm_bias = true,
                                               .read_more = ReadForm};

}  // namespace

const ArchitectureDefinition kStableLmDefinition =
    DefineTransformer<kStableLmTraits>(Architecture::kStableLm, "stablelm");

}  // namespace kvd
