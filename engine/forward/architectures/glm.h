// The architectures glm4 and glm4moe.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGlm4Definition;
extern const ArchitectureDefinition kGlm4MoeDefinition;

}  // namespace kvd
