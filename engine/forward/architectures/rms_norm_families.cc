// Variants of llama with RMS norms whose layers have parts of their own: qwen, granite, hunyuan,
// phi3, gpt-oss, glm4 and olmo.
#include "engine/forward/architectures/definitions.h"

#include <cmath>

#include "engine/forward/architectures/transformer.h"
#include "engine/model/attention_config.h"

namespace kvd {

// ---- qwen
// x += Attention(Norm(x)), x += FeedForward(Norm(x))   (Yang et al. 2024 and 2025). Names and
// defaults are those of llama.cpp (src/models/qwen2.cpp, qwen2moe.cpp, qwen3.cpp, qwen3moe.cpp).

namespace {

constexpr TransformerTraits kQwen2Traits = {.output_bias = BiasRule::kOptional};

// The shared expert is multiplied by the logistic function of its own gate.
constexpr TransformerTraits kQwen2MoeTraits = {.expert_rule = {.has_shared = true},
                                               .expert_tensors = {.has_shared_gate = true},
                                               .has_experts = true};

constexpr TransformerTraits kQwen3Traits = {.qk_norm = QkNorm::kHeads,
                                            .feed_forward_scale = ScaleRule::kAfterBias};

constexpr TransformerTraits kQwen3MoeTraits = {
    .qk_norm = QkNorm::kHeads,
    .feed_forward_scale = ScaleRule::kAfterBias,
    .expert_rule = {.is_normalised = true, .reads_scale = true},
    .has_experts = true};

}  // namespace

const ArchitectureDefinition kQwen2Definition =
    DefineTransformer<kQwen2Traits>(Architecture::kQwen2, "qwen2");
const ArchitectureDefinition kQwen2MoeDefinition =
    DefineTransformer<kQwen2MoeTraits>(Architecture::kQwen2Moe, "qwen2moe");
const ArchitectureDefinition kQwen3Definition =
    DefineTransformer<kQwen3Traits>(Architecture::kQwen3, "qwen3");
const ArchitectureDefinition kQwen3MoeDefinition =
    DefineTransformer<kQwen3MoeTraits>(Architecture::kQwen3Moe, "qwen3moe");

// ---- granite
// x += s * Attention(Norm(x)), x += s * FeedForward(Norm(x)), with scales of the embedding, the
// residuals s, the scores and the logits (Granite Team 2024). Names and defaults are those of
// llama.cpp (src/models/granite.cpp).

namespace {

constexpr TransformerTraits kGraniteTraits = {
    .rope_interleaved = true,
    .has_rope_factors = true,
    .attention_output_bias = BiasRule::kOptional,
    .feed_forward_bias = BiasRule::kOptional,
    .expert_rule = {.is_normalised = true, .has_shared = true, .size_is_feed_forward = true},
    .has_experts = true,
    .has_granite_scales = true};

}  // namespace

const ArchitectureDefinition kGraniteDefinition =
    DefineTransformer<kGraniteTraits>(Architecture::kGranite, "granite");
const ArchitectureDefinition kGraniteMoeDefinition =
    DefineTransformer<kGraniteTraits>(Architecture::kGraniteMoe, "granitemoe");

// ---- hunyuan
// x += Attention(Norm(x)), x += FeedForward(Norm(x)) or experts with a shared expert. Heads of q
// and k are normed after their rotation (Tencent Hunyuan Team 2025). Names and defaults are those
// of llama.cpp (src/models/hunyuan-vl.cpp, hunyuan-moe.cpp).

namespace {

Status ReadRotation(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kAlpha = "rope.scaling.alpha";
  RopeConfig& rope = config.rope;
  KVD_TRY(const float alpha, reader.PositiveOrNone(kAlpha));
  if (alpha != 0.0f) {
    const auto dim = static_cast<float>(rope.rotated_dim);
    rope.freq_base *= std::pow(alpha, dim / (dim - 2.0f));
    if (!std::isfinite(rope.freq_base) || rope.freq_base <= 0.0f) {
      return Fail(Code::kCorrupt, reader.Key(kAlpha), ": ", alpha, " with heads of ",
                  rope.rotated_dim, " rotated elements gives no finite base of the rotation");
    }
  }
  // A norm after the rotation removes a common factor of cos and sin.
  rope.attention_factor = 1.0f;
  config.window_rope = rope;
  return {};
}

constexpr TransformerTraits kDenseTraits = {
    .qk_norm = QkNorm::kHeads, .norms_rotated = true, .read_more = ReadRotation};

constexpr TransformerTraits kMoeTraits = {
    .qk_norm = QkNorm::kHeads,
    .norms_rotated = true,
    .expert_rule = {.is_normalised = true, .has_shared = true, .size_is_feed_forward = true},
    .has_experts = true,
    .read_more = ReadRotation};

}  // namespace

const ArchitectureDefinition kHunyuanDenseDefinition =
    DefineTransformer<kDenseTraits>(Architecture::kHunyuanDense, "hunyuan-dense");
const ArchitectureDefinition kHunyuanMoeDefinition =
    DefineTransformer<kMoeTraits>(Architecture::kHunyuanMoe, "hunyuan-moe");

// ---- phi3
// phi3: x += Attention(Norm(x)), x += FeedForward(Norm(x)) (Abdin et al. 2024; the two rotations:
// Ding et al., LongRoPE, 2024). As in llama.cpp, a sliding window that the file declares is not
// used. phimoe (Phi-3.5-MoE): experts, and norms with a bias; the norms are RMS norms in llama.cpp,
// although the published model has layer norms. Names and defaults are those of llama.cpp
// (src/models/phi3.cpp).

namespace {

constexpr const char* kLongFactors = "rope_factors_long.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";

Status ReadFactors(const ConfigReader& reader, ModelConfig& config) {
  if (reader.file().FindTensor(kLongFactors) != nullptr ||
      reader.file().FindTensor(kShortFactors) != nullptr) {
    config.rope.scaling = RopeScaling::kLongRope;
  }
  if (config.rope.scaling == RopeScaling::kLongRope) {
    config.long_rope_from = config.rope.original_context_length;
  }
  return {};
}

Status VisitFactors(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights) {
  KVD_CHECK_OK(visitor.Vector(kLongFactors, config.rope.rotated_dim / 2,
                              VectorRole::kLongRopeFactors, Presence::kOptional,
                              weights.long_rope_factors));
  return visitor.Vector(kShortFactors, config.rope.rotated_dim / 2, VectorRole::kRopeFactors,
                        Presence::kOptional, weights.rope_factors);
}

constexpr TransformerTraits kPhi3Traits = {
    .has_fused_gate = true, .read_more = ReadFactors, .visit_more = VisitFactors};

constexpr TransformerTraits kPhiMoeTraits = {
    .attention_output_bias = BiasRule::kOptional,
    .has_norm_bias = true,
    .expert_rule = {.is_normalised = true, .size_is_feed_forward = true},
    .has_experts = true,
    .output_bias = BiasRule::kOptional,
    .read_more = ReadFactors,
    .visit_more = VisitFactors};

}  // namespace

const ArchitectureDefinition kPhi3Definition =
    DefineTransformer<kPhi3Traits>(Architecture::kPhi3, "phi3");
const ArchitectureDefinition kPhiMoeDefinition =
    DefineTransformer<kPhiMoeTraits>(Architecture::kPhiMoe, "phimoe");

// ---- gpt oss
// x += Attention(Norm(x)), x += Experts(Norm(x)); every other layer sees a window, each head has a
// sink, and all products have a bias (OpenAI 2025). Names and defaults are those of llama.cpp
// (src/models/openai-moe.cpp).

namespace {

Status ReadGptOssWindow(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 2;
  KVD_TRY(const auto window, reader.Count("attention.sliding_window", kWindowMax));
  KVD_CHECK_OK(ReadWindows(reader, window, kPeriod, config));
  return ReadWindowRope(reader, config.rope.freq_base, config.rope.freq_scale, config);
}

constexpr TransformerTraits kGptOssTraits = {
    .attention_output_bias = BiasRule::kOptional,
    .has_sinks = true,
    .feed_forward_norm = "post_attention_norm",
    .activation = Activation::kClampedSilu,
    .expert_rule = {.gating = ExpertGating::kSoftmaxOfChosen},
    .expert_tensors = {.has_bias = true},
    .has_experts = true,
    .read_more = ReadGptOssWindow};

}  // namespace

const ArchitectureDefinition kGptOssDefinition =
    DefineTransformer<kGptOssTraits>(Architecture::kGptOss, "gpt-oss");

// ---- glm
// glm4: x += PostNorm(Attention(Norm(x))), x += PostNorm(FeedForward(Norm(x)))   (GLM Team 2024);
// glm4moe: norms before only, experts chosen by sigmoid (GLM-4.5 Team 2025). Names and defaults are
// those of llama.cpp (src/models/glm4.cpp, glm4-moe.cpp).

namespace {

constexpr TransformerTraits kGlm4Traits = {.rope_interleaved = true,
                                           .has_post_norm = true,
                                           .has_fused_gate = true,
                                           .has_draft_layers = true};

constexpr TransformerTraits kGlm4MoeTraits = {
    .qk_norm = QkNorm::kHeads,
    .qk_norm_is_optional = true,
    .feed_forward_norm = "post_attention_norm",
    .expert_rule = {.gating = ExpertGating::kSigmoid,
                    .gating_from = ExpertRule::From::kFile,
                    .normalised_from = ExpertRule::From::kFile,
                    .reads_scale = true,
                    .has_shared = true,
                    .reads_leading_dense = true},
    .expert_tensors = {.has_selection_bias = true},
    .has_experts = true,
    .has_draft_layers = true};

}  // namespace

const ArchitectureDefinition kGlm4Definition =
    DefineTransformer<kGlm4Traits>(Architecture::kGlm4, "glm4");
const ArchitectureDefinition kGlm4MoeDefinition =
    DefineTransformer<kGlm4MoeTraits>(Architecture::kGlm4Moe, "glm4moe");

// ---- olmo
// olmo2: x += Norm(Attention(x)), x += Norm(FeedForward(x)) (OLMo Team 2025); olmoe: norms before,
// experts (Muennighoff et al. 2024). olmo2 and olmoe norm whole rows of q and k. Names and defaults
// are those of llama.cpp (src/models/olmo2.cpp, olmoe.cpp).

namespace {

// Files of Olmo 3 also name their architecture olmo2, and declare windows. Layers of Olmo 3 with a
// window rotate without YaRN.
Status ReadOlmo3Windows(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::uint32_t kPeriod = 4;
  KVD_TRY(const auto window, reader.file().GetU64Or(reader.Key("attention.sliding_window"), 0));
  if (window == 0) return {};
  if (window > kWindowMax) {
    return FailRange(reader.Key("attention.sliding_window"), window, 0, kWindowMax);
  }
  KVD_CHECK_OK(ReadWindows(reader, static_cast<std::uint32_t>(window), kPeriod, config));
  KVD_CHECK_OK(ReadWindowRope(reader, config.rope.freq_base, 1.0f, config));
  config.window_rope.scaling = RopeScaling::kNone;
  config.window_rope.yarn_ext_factor = 0.0f;
  config.window_rope.attention_factor = 1.0f;
  return {};
}

constexpr TransformerTraits kOlmo2Traits = {.qk_norm = QkNorm::kRows,
                                            .has_pre_norm = false,
                                            .has_post_norm = true,
                                            .read_more = ReadOlmo3Windows};

constexpr TransformerTraits kOlmoeTraits = {
    .qk_norm = QkNorm::kRows, .expert_rule = {.size_is_feed_forward = true}, .has_experts = true};

}  // namespace

const ArchitectureDefinition kOlmo2Definition =
    DefineTransformer<kOlmo2Traits>(Architecture::kOlmo2, "olmo2");
const ArchitectureDefinition kOlmoeDefinition =
    DefineTransformer<kOlmoeTraits>(Architecture::kOlmoe, "olmoe");

}  // namespace kvd
