// phi3: x += Attention(Norm(x)), x += FeedForward(Norm(x)) (Abdin et al. 2024; the two rotations:
// Ding et al., LongRoPE, 2024). As in llama.cpp, a sliding window that the file declares is not
// used. phimoe (Phi-3.5-MoE): experts, and norms with a bias; the norms are RMS norms in llama.cpp,
// although the published model has layer norms. Names and defaults are those of llama.cpp
// (src/models/phi3.cpp).
#include "engine/forward/architectures/phi3.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
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

}  // namespace kvd
