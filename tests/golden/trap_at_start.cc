// This file is linked into kvd-golden-trapped, which runs with KVD_KERNELS=amx on machines that
// lack only the tile instructions (tests/kernels/trapped_tiles.h).
#include "tests/kernels/trapped_tiles.h"

namespace {

[[maybe_unused]] const bool kIsThere = kvd::kernels::SelectOrTrap("amx").table != nullptr;

}  // namespace
