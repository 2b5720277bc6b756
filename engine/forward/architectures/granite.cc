// x += s * Attention(Norm(x)), x += s * FeedForward(Norm(x)), with scales of the embedding, the
// residuals s, the scores and the logits (Granite Team 2024). Names and defaults are those of
// llama.cpp (src/models/granite.cpp).
#include "engine/forward/architectures/granite.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
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

}  // namespace kvd
