// The seccomp filter: which system calls the daemon can still make. libseccomp is met in
// syscall_filter.cc and nowhere else.
//
// Start-up only. The filter holds for every thread and cannot be taken back. A call that is not on
// the list fails with EPERM and does not end the process: a library that probes for a call falls
// back to another one, and the daemon serves on.
#pragma once

#include "shm/error.h"

namespace kvd {

// Loads the filter for all threads of this process. REQUIRES: no_new_privs is set; the process id
// does not change any more. Errors: kUnsupported (the kernel's or libseccomp's text); nothing is
// restricted then.
Status FilterSyscalls();

}  // namespace kvd
