// bert: an encoder without a cache, for embeddings.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kBertDefinition;

}  // namespace kvd
