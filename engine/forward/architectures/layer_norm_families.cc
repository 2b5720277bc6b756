// Variants of llama with layer norms: gpt2, starcoder2, stablelm, phi2, falcon, command-r and
// cohere2.
#include "engine/forward/architectures/definitions.h"

#include "engine/forward/architectures/transformer.h"
#include "engine/forward/layers/layer_inputs.h"
#include "engine/model/attention_config.h"

namespace kvd {

// ---- gpt2
// x = token + position, then in each layer x += Attention(LayerNorm(x)) and x +=
// FeedForward(LayerNorm(x)), without a gate (Radford et al. 2019). gpt2 does not rotate keys, so a
// shift changes the positions of later tokens and no key. Names and defaults are those of llama.cpp
// (src/models/gpt2.cpp).

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

// ---- starcoder2
// x += Attention(LayerNorm(x)), x += FeedForward(LayerNorm(x)), without a gate (Lozhkov et al.
// 2024). Names and defaults are those of llama.cpp (src/models/starcoder2.cpp). As in llama.cpp, a
// sliding window that the file declares is not used.

namespace {

constexpr TransformerTraits kStarCoder2Traits = {.attention_output_bias = BiasRule::kOptional,
                                                 .has_layer_norms = true,
                                                 .has_norm_bias = true,
                                                 .activation = Activation::kUngatedGelu,
                                                 .feed_forward_bias = BiasRule::kOptional};

}  // namespace

const ArchitectureDefinition kStarCoder2Definition =
    DefineTransformer<kStarCoder2Traits>(Architecture::kStarCoder2, "starcoder2");

// ---- stablelm
// x += Attention(LayerNorm(x)), x += FeedForward(LayerNorm(x)) (Stability AI 2024). The largest
// model has no norm of the feed-forward: x += Attention(h) + FeedForward(h) with h = LayerNorm(x).
// The largest model also norms each head of q and k. Names and defaults are those of llama.cpp
// (src/models/stablelm.cpp), which decides between the two forms by the tensor alone.

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

// ---- phi2
// x += Attention(h) + FeedForward(h) with h = LayerNorm(x), without a gate (Javaheripi et al.
// 2023). Names and defaults are those of llama.cpp (src/models/phi2.cpp).

namespace {

constexpr TransformerTraits kPhi2Traits = {.attention_output_bias = BiasRule::kOptional,
                                           .has_layer_norms = true,
                                           .has_norm_bias = true,
                                           .is_parallel = true,
                                           .activation = Activation::kUngatedGelu,
                                           .feed_forward_bias = BiasRule::kOptional,
                                           .output_bias = BiasRule::kOptional};

}  // namespace

const ArchitectureDefinition kPhi2Definition =
    DefineTransformer<kPhi2Traits>(Architecture::kPhi2, "phi2");

// ---- falcon
// x += Attention(LayerNorm(x)) + FeedForward(LayerNorm(x)), without a gate. The small models have
// one norm for attention and feed-forward, the large models two norms (Almazrouei et al. 2023).
// Names and defaults are those of llama.cpp (src/models/falcon.cpp).

namespace {

constexpr TransformerTraits kFalconTraits = {.has_layer_norms = true,
                                             .has_norm_bias = true,
                                             .is_parallel = true,
                                             .has_second_norms = true,
                                             .activation = Activation::kUngatedGelu};

}  // namespace

const ArchitectureDefinition kFalconDefinition =
    DefineTransformer<kFalconTraits>(Architecture::kFalcon, "falcon");

// ---- cohere
// x += Attention(h) + FeedForward(h) with h = LayerNorm(x), a norm without a bias (Cohere 2024).
// Models with many layers also norm each head of q and k. cohere2 (Cohere 2025) has windows; layers
// of cohere2 without a window do not rotate. Names and defaults are those of llama.cpp
// (src/models/command-r.cpp, cohere2.cpp).

namespace {

Status ReadCommandR(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kLayersWithQkNorm = 64;
  if (config.layer_count >= kLayersWithQkNorm) config.has_qk_norm = true;
  KVD_TRY(config.logit_scale, reader.RequiredPositive("logit_scale"));
  return {};
}

Status ReadCohere2(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 4;
  KVD_TRY(config.logit_scale, reader.RequiredPositive("logit_scale"));
  KVD_TRY(const auto window, reader.Count("attention.sliding_window", kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriod, config));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    config.is_unrotated[layer] = config.window[layer] == 0;
  }
  return ReadWindowRope(reader, config.rope.freq_base, config.rope.freq_scale, config);
}

constexpr TransformerTraits kCommandRTraits = {.rope_interleaved = true,
                                               .qk_norm = QkNorm::kHeadsApart,
                                               .qk_norm_is_optional = true,
                                               .has_layer_norms = true,
                                               .is_parallel = true,
                                               .read_more = ReadCommandR};

constexpr TransformerTraits kCohere2Traits = {.rope_interleaved = true,
                                              .has_layer_norms = true,
                                              .is_parallel = true,
                                              .read_more = ReadCohere2};

}  // namespace

const ArchitectureDefinition kCommandRDefinition =
    DefineTransformer<kCommandRTraits>(Architecture::kCommandR, "command-r");
const ArchitectureDefinition kCohere2Definition =
    DefineTransformer<kCohere2Traits>(Architecture::kCohere2, "cohere2");

}  // namespace kvd
