// x += Attention(Norm(x)), x += FeedForward(Norm(x))   (Abdin et al. 2024; the two rotations: Ding
// et al., LongRoPE, 2024). Names and defaults are those of llama.cpp (src/models/phi3.cpp), which
// also leaves a sliding window that the file declares unused.
#include "engine/architectures/phi3.h"

#include "engine/architectures/common_tensors.h"
#include "engine/attention_config.h"
#include "engine/layers/attention_layer.h"
#include "engine/layers/feed_forward.h"

namespace kvd {
namespace {

constexpr const char* kLongFactors = "rope_factors_long.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";

Status ReadConfig(const ConfigReader& reader, ModelConfig& config) {
  KVD_CHECK_OK(RequireCausal(reader));
  KVD_TRY(config.feed_forward_size, reader.PerLayer("feed_forward_length", config.layer_count,
                                                    ModelConfig::kFeedForwardSizeMax));
  KVD_CHECK_OK(ReadHeads(reader, HeadRule::kEveryLayer, config));
  KVD_TRY(config.rms_epsilon, reader.RequiredPositive("attention.layer_norm_rms_epsilon"));
  KVD_CHECK_OK(ReadRope(reader, false, config));
  if (reader.file().FindTensor(kLongFactors) != nullptr ||
      reader.file().FindTensor(kShortFactors) != nullptr) {
    config.rope.scaling = RopeScaling::kLongRope;
  }
  if (config.rope.scaling == RopeScaling::kLongRope) {
    config.long_rope_from = config.rope.original_context_length;
  }
  return {};
}

// ffn_up holds the rows of gate and up.
Status VisitGateAndUp(const ModelConfig& config, TensorVisitor& visitor, std::size_t layer,
                      FeedForwardWeights& weights) {
  const std::uint64_t hidden = config.feed_forward_size[layer];
  LinearView both;
  KVD_CHECK_OK(VisitLinear(visitor, BlockPrefix(layer) + "ffn_up", config.embedding_size,
                           2 * hidden, BiasRule::kNone, ScaleRule::kIgnored, both));
  if (!both.weight) return {};  // a visitor that only lists
  weights.gate = weights.up = both;
  weights.gate.weight.out_features = weights.up.weight.out_features = hidden;
  weights.up.weight.data += hidden * kernels::RowBytes(both.weight.type, config.embedding_size);
  return {};
}

Status VisitPhi3(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(VisitEmbedding(config, visitor, weights));
  KVD_CHECK_OK(visitor.Vector(kLongFactors, config.rope.rotated_dim / 2,
                              VectorRole::kLongRopeFactors, Presence::kOptional,
                              weights.long_rope_factors));
  KVD_CHECK_OK(visitor.Vector(kShortFactors, config.rope.rotated_dim / 2, VectorRole::kRopeFactors,
                              Presence::kOptional, weights.rope_factors));
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    LayerWeights& into = weights.layers[layer];
    const std::string block = BlockPrefix(layer);
    KVD_CHECK_OK(VisitAttention(config, visitor, layer, {}, into.attention));
    KVD_CHECK_OK(
        VisitNorm(visitor, block + "ffn_norm", config.embedding_size, into.feed_forward.norm));
    KVD_CHECK_OK(VisitGateAndUp(config, visitor, layer, into.feed_forward));
    KVD_CHECK_OK(VisitLinear(visitor, block + "ffn_down", config.feed_forward_size[layer],
                             config.embedding_size, BiasRule::kNone, ScaleRule::kIgnored,
                             into.feed_forward.down));
  }
  return VisitOutput(config, visitor, BiasRule::kNone, weights);
}

void RunLayer(ForwardPass& pass, std::size_t layer) {
  const LayerWeights& weights = pass.weights().layers[layer];
  RunAttentionLayer(pass, layer, weights.attention);
  RunFeedForward(pass, layer, weights.feed_forward, Activation::kSilu);
}

}  // namespace

const ArchitectureDefinition kPhi3Definition = {.architecture = Architecture::kPhi3,
                                                .name = "phi3",
                                                .read_config = ReadConfig,
                                                .visit_tensors = VisitPhi3,
                                                .run_layer = RunLayer};

}  // namespace kvd
