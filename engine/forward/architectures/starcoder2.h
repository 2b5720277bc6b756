// The architecture starcoder2.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kStarCoder2Definition;

}  // namespace kvd
