#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kT5Definition;

}  // namespace kvd
