// Linked beside kvd-golden's own objects: KVD_KERNELS=amx then runs on machines that lack the tile
// instructions alone (tests/kernels/trapped_tiles.h).
#include "tests/kernels/trapped_tiles.h"

namespace {

[[maybe_unused]] const bool kIsThere = kvd::kernels::SelectOrTrap("amx").table != nullptr;

}  // namespace
