// The seccomp filter: restricts the system calls that the daemon can make. Only syscall_filter.cc
// uses libseccomp.
//
// The daemon calls FilterSyscalls once at its start. The seccomp filter applies to every thread and
// cannot be removed. A system call that the filter does not allow fails with EPERM and does not end
// the process, so a library that probes for a system call falls back to another one.
#pragma once

#include "base/error.h"

namespace kvd {

// Loads the filter for all threads of this process. REQUIRES: no_new_privs is set; the process id
// does not change afterwards. Errors: kUnsupported (the kernel's or libseccomp's text); after an
// error, system calls are not restricted.
Status FilterSyscalls();

}  // namespace kvd
