// The architectures qwen2 and qwen3, dense and with experts.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kQwen2Definition;
extern const ArchitectureDefinition kQwen2MoeDefinition;
extern const ArchitectureDefinition kQwen3Definition;
extern const ArchitectureDefinition kQwen3MoeDefinition;

}  // namespace kvd
