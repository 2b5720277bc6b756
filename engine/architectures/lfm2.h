// lfm2: layers of gated short convolutions among layers of attention (Liquid AI 2025).
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kLfm2Definition;

}  // namespace kvd
