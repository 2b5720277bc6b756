// x += Attention(LayerNorm(x)) + FeedForward(LayerNorm(x)), without a gate. The small models have
// one norm for attention and feed-forward, the large models two norms (Almazrouei et al. 2023).
// Names and defaults are those of llama.cpp (src/models/falcon.cpp).
#include "engine/forward/architectures/falcon.h"

#include "engine/forward/architectures/transformer.h"

namespace kvd {
namespace {

constexpr TransformerTraits kFalconTraits = {.has_layer_norms = true,
                                             .has_norm_bias = true,
                                             .is_parallel = true,
                                             .has_second_norms = true,
                                             .activation = Activation::kUngatedGelu};

}  // namespace

const ArchitectureDefinition kFalconDefinition =
    DefineTransformer<kFalconTraits>(Architecture::kFalcon, "falcon");

}  // namespace kvd
