// glm4: x += PostNorm(Attention(Norm(x))), x += PostNorm(FeedForward(Norm(x)))   (GLM Team 2024);
// glm4moe: norms before only, experts chosen by sigmoid (GLM-4.5 Team 2025). Names and defaults are
// those of llama.cpp (src/models/glm4.cpp, glm4-moe.cpp).
#include "engine/forward/architectures/glm.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
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

}  // namespace kvd
