// The architectures nemotron_h and nemotron_h_moe.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kNemotronHDefinition;
extern const ArchitectureDefinition kNemotronHMoeDefinition;

}  // namespace kvd
