// x = token + position, then in each layer x += Attention(LayerNorm(x)) and x +=
// FeedForward(LayerNorm(x)), without a gate (Radford et al. 2019). gpt2 does not rotate keys, so a
// shift changes the positions of later tokens and no key. Names and defaults are those of llama.cpp
// (src/models/gpt2.cpp).
#include "engine/forward/architectures/gpt2.h"

#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/position_embedding.h"

namespace kvd {
namespace {

Status ReadPositions(const ConfigReader&, ModelConfig& config) {
  config.has_rope = false;
  config.position_count = config.context_length;
  return {};
}

Status VisitPositions(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  return visitor.Matrix("position_embd.weight", config.embedding_size, config.position_count,
                        Presence::kRequired, weights.position_embedding);
}

constexpr TransformerTraits kGpt2Traits = {.attention_output_bias = BiasRule::kOptional,
                                           .has_layer_norms = true,
                                           .has_norm_bias = true,
                                           .activation = Activation::kUngatedGelu,
                                           .feed_forward_bias = BiasRule::kOptional,
                                           .read_more = ReadPositions,
                                           .visit_more = VisitPositions,
                                           .begin = AddPositionEmbeddings};

}  // namespace

const ArchitectureDefinition kGpt2Definition =
    DefineTransformer<kGpt2Traits>(Architecture::kGpt2, "gpt2");

}  // namespace kvd
