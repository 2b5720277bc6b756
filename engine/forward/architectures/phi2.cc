// x += Attention(h) + FeedForward(h) with h = LayerNorm(x), without a gate (Javaheripi et al.
// 2023). Names and defaults are those of llama.cpp (src/models/phi2.cpp).
#include "engine/forward/architectures/phi2.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
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

}  // namespace kvd
