// modern-bert: an encoder with windows and norms before its parts, for embeddings and rerankers.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kModernBertDefinition;

}  // namespace kvd
