// gemma3n: four parallel streams, a low-rank product beside attention, inputs of layers, sparse
// feed-forwards in the first layers, layers that read the cells of earlier layers.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGemma3nDefinition;

}  // namespace kvd
