// The architectures phi3 and phimoe.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kPhi3Definition;
extern const ArchitectureDefinition kPhiMoeDefinition;

}  // namespace kvd
