// The architectures olmo2 and olmoe.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kOlmo2Definition;
extern const ArchitectureDefinition kOlmoeDefinition;

}  // namespace kvd
