// Implements --verify-pool: checks the bytes of every cell, state and row of logits that the
// sequences of a memory refer to.
#pragma once

#include <vector>

#include "engine/memory/memory.h"

namespace kvd {

// Drops sequences, and unpublishes snapshots, that refer to a value that is not finite (NaN or
// infinity), and returns the dropped sequences. Each block is read once, even if several sequences
// share it. REQUIRES: no other thread uses the memory yet.
std::vector<LostSequence> DropWhatIsNotFinite(Memory& memory);

}  // namespace kvd
