// rwkv6 and rwkv7: recurrent layers only, with a matrix per head as their state.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kRwkv6Definition;
extern const ArchitectureDefinition kRwkv7Definition;

}  // namespace kvd
