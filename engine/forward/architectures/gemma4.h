// gemma4: layers with and without a sliding window, whose heads differ in length; layers that read
// the cells of earlier layers; inputs of layers, or experts beside each feed-forward.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kGemma4Definition;

}  // namespace kvd
