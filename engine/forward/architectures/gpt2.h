// The architecture gpt2.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGpt2Definition;

}  // namespace kvd
