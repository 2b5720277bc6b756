// gemma-embedding: the layers of gemma3 without a causal mask, for embeddings.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGemmaEmbeddingDefinition;

}  // namespace kvd
