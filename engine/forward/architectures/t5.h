// t5: an encoder, and a decoder with cross attention. Attention has a bias by distance and no
// rotation.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kT5Definition;

}  // namespace kvd
