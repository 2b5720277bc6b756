// bert: an encoder for embeddings, which caches no keys and values.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kBertDefinition;

}  // namespace kvd
