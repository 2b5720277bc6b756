// x += Attention(LayerNorm(x)), x += FeedForward(LayerNorm(x)), without a gate (Lozhkov et al.
// 2024). Names and defaults are those of llama.cpp (src/models/starcoder2.cpp). As in llama.cpp, a
// sliding window that the file declares is not used.
#include "engine/forward/architectures/starcoder2.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
namespace {

constexpr TransformerTraits kStarCoder2Traits = {.attention_output_bias = BiasRule::kOptional,
                                                 .has_layer_norms = true,
                                                 .has_norm_bias = true,
                                                 .activation = Activation::kUngatedGelu,
                                                 .feed_forward_bias = BiasRule::kOptional};

}  // namespace

const ArchitectureDefinition kStarCoder2Definition =
    DefineTransformer<kStarCoder2Traits>(Architecture::kStarCoder2, "starcoder2");

}  // namespace kvd
