// What --verify-pool does: looks at the bytes of every cell, state and row of logits that a memory's
// sequences refer to.
#pragma once

#include <vector>

#include "engine/memory/memory.h"

namespace kvd {

// Drops the sequences (and takes back the snapshots) of which a number is not finite. Each block is
// read once, whoever shares it. REQUIRES: no other thread has the memory yet.
std::vector<LostSequence> DropWhatIsNotFinite(Memory& memory);

}  // namespace kvd
