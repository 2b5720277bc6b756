// Counts the calls of operator new in this process, for tests that assert that a call allocates no
// memory.
//
// Linking allocation_counter.cc into a test binary replaces the plain operators new and delete. The
// operators are defined in a separate file, so that no call of them is inlined into a test.
#pragma once

#include <cstddef>

namespace kvd {

// Returns the number of allocations by all threads since the process started. May be called on any
// thread.
std::size_t AllocationCount();

}  // namespace kvd
