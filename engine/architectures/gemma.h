// gemma2 and gemma3: norms before and after each half of a layer, GELU, most layers with a sliding
// window; gemma2 soft-caps scores and logits, gemma3 norms queries and keys.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGemma2Definition;
extern const ArchitectureDefinition kGemma3Definition;

}  // namespace kvd
