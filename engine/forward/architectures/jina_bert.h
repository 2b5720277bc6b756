// jina-bert-v2: bert with a bias by distance and gated feed-forwards, for embeddings.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kJinaBertV2Definition;

}  // namespace kvd
