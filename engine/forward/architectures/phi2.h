// The architecture phi2.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kPhi2Definition;

}  // namespace kvd
