// lfm2: some layers are gated short convolutions and the others attention (Liquid AI 2025).
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kLfm2Definition;
extern const ArchitectureDefinition kLfm2MoeDefinition;

}  // namespace kvd
