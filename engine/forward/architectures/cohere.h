// The architectures command-r and cohere2.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kCommandRDefinition;
extern const ArchitectureDefinition kCohere2Definition;

}  // namespace kvd
