// The amx table on machines that lack nothing of it but the tile instructions: each of them ends in
// SIGILL there, and a handler carries it out on tiles of its own (1 to 2 us each). So what runs is
// the compiled code with its real instructions, not a copy of it. Whatever the processor would fault
// on, and any other unknown instruction, ends the process with a message.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels {

// As SelectKernels(name). The first call for "amx" on such a machine installs the handler, for the
// whole process and for good, and AssumeTiles() (kernels/kernel_table.h). Thread-safe.
KernelChoice SelectOrTrap(const char* name);

// Whether SelectOrTrap has installed the handler.
bool TilesAreTrapped();

}  // namespace kvd::kernels
