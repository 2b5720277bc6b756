// The processors that this process may run on, and pinning of threads to them.
#pragma once

#include <vector>

namespace kvd {

// Numbers of the logical processors in this process's affinity mask: the first processor of each
// core, ascending, then the other processors. Cores are read from /sys/devices/system/cpu; if a
// processor's core is not listed there, the processor counts as a core. Empty if the affinity mask
// cannot be read.
std::vector<int> UsableProcessors();

// Pins the calling thread to the processor. Returns false and changes nothing if the system
// refuses.
bool PinThisThread(int processor);

}  // namespace kvd
