// gemma2 and gemma3: norms before and after each half of a layer, GELU, and a sliding window in
// most layers. gemma2 soft-caps scores and logits; gemma3 norms queries and keys.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGemmaDefinition;
extern const ArchitectureDefinition kGemma2Definition;
extern const ArchitectureDefinition kGemma3Definition;

// Reads the keys that all gemma models share: heads, feed-forwards, the epsilon of norms and the
// rotation. Token embeddings are multiplied by sqrt(embedding_size). The first gemma (2024) has no
// other keys: it has neither windows nor norms of the layers' outputs.
Status ReadGemma(const ConfigReader& reader, ModelConfig& config);

}  // namespace kvd
