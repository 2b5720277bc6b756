// Which process a session's client is, told apart from a later one of the same number.
#pragma once

#include <sys/types.h>

#include "engine/memory/sessions.h"
#include "shm/unique_fd.h"

namespace kvd {

// The process as it is now; all 0: it is not known (gone, or not ours to see).
ClientProcess DescribeProcess(pid_t pid);

struct FoundProcess {
  bool is_gone = false;  // for sure
  UniqueFd pidfd;        // readable at its end; none where nothing is known of it
};
// Of a process that an earlier daemon has described.
FoundProcess FindProcess(const ClientProcess& process);

}  // namespace kvd
