// qwen35 (Qwen3.5, dense): layers of gated delta nets, of every so many one of gated attention.
#pragma once

#include "engine/architectures/architecture.h"

namespace kvd {

extern const ArchitectureDefinition kQwen35Definition;

}  // namespace kvd
