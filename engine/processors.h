// The processors that this process may run on, and threads held to one each.
#pragma once

#include <vector>

namespace kvd {

// Numbers of the logical processors in this process's affinity mask: one thread of each core first (as
// /sys/devices/system/cpu tells; where it does not, each counts as a core), ascending, then the others.
// Empty if the system does not tell.
std::vector<int> UsableProcessors();

// False, with nothing changed, if the system does not let it.
bool PinThisThread(int processor);

}  // namespace kvd
