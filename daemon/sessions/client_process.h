// ClientProcess: identifies the process of a session's client, also after the kernel has given the
// pid to another process.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/unique_fd.h"

namespace kvd {

// A ClientProcess identifies a process by its pid and start time. If all members are 0, the process
// is not known.
struct ClientProcess {
  std::uint32_t pid = 0;
  std::uint64_t start = 0;          // start time of the process, in clock ticks since the boot
  std::uint32_t pid_namespace = 0;  // inode number of the pid namespace in which `pid` is valid
  friend bool operator==(const ClientProcess&, const ClientProcess&) = default;
};

// Describes the running process `pid`. All members of the result are 0 if that process has ended or
// is not visible to the daemon.
ClientProcess DescribeProcess(pid_t pid);

struct FoundProcess {
  bool is_gone = false;  // true only if it is certain that the process has ended
  // A descriptor that becomes readable when the process ends; empty if the process was not found.
  UniqueFd pidfd;
};
// Looks for a process that an earlier daemon has described.
FoundProcess FindProcess(const ClientProcess& process);

}  // namespace kvd
