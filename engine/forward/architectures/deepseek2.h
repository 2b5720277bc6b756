// The architecture of DeepSeek V2 and V3, and of models built like them.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kDeepseek2Definition;

}  // namespace kvd
