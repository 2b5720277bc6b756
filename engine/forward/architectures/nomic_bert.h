// nomic-bert: bert with rotated queries and keys and gated feed-forwards, for embeddings.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kNomicBertDefinition;

}  // namespace kvd
