// The architectures granite and granitemoe.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGraniteDefinition;
extern const ArchitectureDefinition kGraniteMoeDefinition;

}  // namespace kvd
