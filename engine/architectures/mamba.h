// mamba and mamba2: nothing but state-space layers. jamba, granitehybrid and falcon-h1: beside
// attention.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kMambaDefinition;
extern const ArchitectureDefinition kMamba2Definition;
extern const ArchitectureDefinition kJambaDefinition;
extern const ArchitectureDefinition kGraniteHybridDefinition;
extern const ArchitectureDefinition kFalconH1Definition;

}  // namespace kvd
