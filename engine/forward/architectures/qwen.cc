// x += Attention(Norm(x)), x += FeedForward(Norm(x))   (Yang et al. 2024 and 2025). Names and
// defaults are those of llama.cpp (src/models/qwen2.cpp, qwen2moe.cpp, qwen3.cpp, qwen3moe.cpp).
#include "engine/forward/architectures/qwen.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
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

}  // namespace kvd
