// phi3: llama's layers with fused projections, and two rotations: one for sequences within the
// context that the model was first trained on, one for longer ones.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kPhi3Definition;

}  // namespace kvd
