// x += Attention(Norm(x)), x += FeedForward(Norm(x))   (Touvron et al. 2023)
#include "engine/architectures/llama.h"

#include "engine/architectures/common_tensors.h"
#include "engine/attention_config.h"
#include "engine/layers/attention_layer.h"
#include "engine/layers/feed_forward.h"

namespace kvd {
namespace {

constexpr LlamaTraits kLlamaTraits = {.rope_interleaved = true,
                                      .has_rope_factors = true,
                                      .has_attention_output_bias = true,
                                      .has_feed_forward_bias = true,
                                      .has_feed_forward_scale = true};
constexpr LlamaTraits kQwen2Traits = {.has_output_bias = true};
constexpr LlamaTraits kQwen3Traits = {.has_qk_norm = true, .has_feed_forward_scale = true};

bool HasQkvBias(const GgufFile& file) {
  return file.FindTensor("blk.0.attn_q.bias") != nullptr ||
         file.FindTensor("blk.0.attn_k.bias") != nullptr ||
         file.FindTensor("blk.0.attn_v.bias") != nullptr ||
         file.FindTensor("blk.0.attn_qkv.bias") != nullptr;
}

Status ReadConfig(const ConfigReader& reader, ModelConfig& config) {
  const LlamaTraits& traits = LlamaTraitsOf(config.architecture);
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kEveryLayer, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, traits.rope_interleaved, config));
  if (traits.has_rope_factors && reader.file().FindTensor("rope_freqs.weight") != nullptr) {
    config.rope.scaling = RopeScaling::kLlama3;
  }
  config.has_qkv_bias = HasQkvBias(reader.file());
  return {};
}

Status VisitLlama(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  const LlamaTraits& traits = LlamaTraitsOf(config.architecture);
  const auto optional = [](bool is_read) {
    return is_read ? BiasRule::kOptional : BiasRule::kNone;
  };
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  if (traits.has_rope_factors) {
    KVD_CHECK_OK(visitor.Vector("rope_freqs.weight", config.rope.rotated_dim / 2,
                                VectorRole::kRopeFactors, Presence::kOptional,
                                weights.rope_factors));
  }
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    KVD_CHECK_OK(VisitAttention(config, visitor, layer,
                                {.has_qk_norm = traits.has_qk_norm,
                                 .output_bias = optional(traits.has_attention_output_bias)},
                                into.attention));
    KVD_CHECK_OK(VisitFeedForward(
        config, visitor, layer,
        {.bias = optional(traits.has_feed_forward_bias),
         .scale = traits.has_feed_forward_scale ? ScaleRule::kAfterBias : ScaleRule::kIgnored},
        into.feed_forward));
  }
  // The head of a reranker: no part of the logits.
  KVD_CHECK_OK(visitor.Ignore("cls.output.weight"));
  return VisitOutput(config, visitor, optional(traits.has_output_bias), weights);
}

void RunLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  RunAttentionLayer(pass, layer, weights.attention);
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

constexpr ArchitectureDefinition Define(Architecture architecture, std::string_view name) {
  return {.architecture = architecture,
          .name = name,
          .read_config = ReadConfig,
          .visit_tensors = VisitLlama,
          .run_layer = RunLayer};
}

}  // namespace

const LlamaTraits& LlamaTraitsOf(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen2: return kQwen2Traits;
    case Architecture::kQwen3: return kQwen3Traits;
    default: return kLlamaTraits;
  }
}

const ArchitectureDefinition kLlamaDefinition = Define(Architecture::kLlama, "llama");
const ArchitectureDefinition kQwen2Definition = Define(Architecture::kQwen2, "qwen2");
const ArchitectureDefinition kQwen3Definition = Define(Architecture::kQwen3, "qwen3");

}  // namespace kvd
