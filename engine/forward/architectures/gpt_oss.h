// The architecture gpt-oss.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGptOssDefinition;

}  // namespace kvd
