// mamba and mamba2 have state-space layers only. jamba, granitehybrid and falcon-h1 combine
// state-space layers with attention.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kMambaDefinition;
extern const ArchitectureDefinition kMamba2Definition;
extern const ArchitectureDefinition kJambaDefinition;
extern const ArchitectureDefinition kGraniteHybridDefinition;
extern const ArchitectureDefinition kFalconH1Definition;

}  // namespace kvd
