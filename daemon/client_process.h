// Which process a session's client is, told apart from a later one of the same number.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "shm/unique_fd.h"

namespace kvd {

// A process, told apart from a later one of the same number; all 0: not known.
struct ClientProcess {
  std::uint32_t pid = 0;
  std::uint64_t start = 0;          // clock ticks since the boot
  std::uint32_t pid_namespace = 0;  // in which the pid is one: its inode number
  friend bool operator==(const ClientProcess&, const ClientProcess&) = default;
};

// The process as it is now; all 0: it is not known (gone, or not ours to see).
ClientProcess DescribeProcess(pid_t pid);

struct FoundProcess {
  bool is_gone = false;  // for sure
  UniqueFd pidfd;        // readable at its end; none where nothing is known of it
};
// Of a process that an earlier daemon has described.
FoundProcess FindProcess(const ClientProcess& process);

}  // namespace kvd
