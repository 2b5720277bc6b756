// The architecture stablelm.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kStableLmDefinition;

}  // namespace kvd
