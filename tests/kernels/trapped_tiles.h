// Runs the amx kernel table on machines that have all instructions that it needs except the tile
// instructions. On a machine without tile instructions a tile instruction raises SIGILL, and a
// signal handler emulates the instruction (1 to 2 us per instruction). Tests can therefore run the
// compiled code of the amx table with its tile instructions. The handler ends the process with a
// message if the processor would fault on the instruction, and on any other illegal instruction.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels {

// Returns SelectKernels(name). The first call for "amx" on such a machine also calls AssumeTiles()
// (kernels/kernel_table.h) and installs the handler for the whole process; the handler is never
// removed. Thread-safe.
KernelChoice SelectOrTrap(const char* name);

// Returns whether SelectOrTrap has installed the handler.
bool TilesAreTrapped();

}  // namespace kvd::kernels
