// Counts what this process takes from operator new, for tests that say "nothing is allocated here".
//
// Linking allocation_counter.cc into a test binary replaces the plain operators new and delete; it
// is a file of its own so that no call is inlined into a test.
#pragma once

#include <cstddef>

namespace kvd {

// Allocations since the process began. Any thread.
std::size_t AllocationCount();

}  // namespace kvd
