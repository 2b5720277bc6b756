// The architectures llama, mistral3 and smollm3, which differ little.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kLlamaDefinition;
extern const ArchitectureDefinition kMistral3Definition;
extern const ArchitectureDefinition kSmolLm3Definition;

}  // namespace kvd
