// rwkv6 and rwkv7: recurrent layers only; the state has a matrix per head.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kRwkv6Definition;
extern const ArchitectureDefinition kRwkv7Definition;

}  // namespace kvd
