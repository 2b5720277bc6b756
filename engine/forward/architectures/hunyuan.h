// The architectures hunyuan-dense and hunyuan-moe.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kHunyuanDenseDefinition;
extern const ArchitectureDefinition kHunyuanMoeDefinition;

}  // namespace kvd
