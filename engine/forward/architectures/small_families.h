// Architectures that differ from llama only by a few values of TransformerTraits.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kSeedOssDefinition;
extern const ArchitectureDefinition kInternLm2Definition;
extern const ArchitectureDefinition kErnie45Definition;
extern const ArchitectureDefinition kErnie45MoeDefinition;
extern const ArchitectureDefinition kMiniCpmDefinition;
extern const ArchitectureDefinition kMiniMaxM2Definition;
extern const ArchitectureDefinition kBailingMoe2Definition;
extern const ArchitectureDefinition kExaone4Definition;

}  // namespace kvd
