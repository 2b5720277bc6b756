// The architecture kimi-linear.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kKimiLinearDefinition;

}  // namespace kvd
