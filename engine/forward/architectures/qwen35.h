// qwen35 (Qwen3.5, dense): layers of gated delta nets; by default every fourth layer is gated
// attention instead.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kQwen35Definition;
extern const ArchitectureDefinition kQwen35MoeDefinition;
extern const ArchitectureDefinition kQwen3NextDefinition;

}  // namespace kvd
