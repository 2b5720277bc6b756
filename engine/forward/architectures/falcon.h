// The architecture falcon.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kFalconDefinition;

}  // namespace kvd
