// Runs a part of a test in a process of another uid. Changing the uid needs root.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace kvd::test {

// The failed expectations of a process of another uid, one sentence per line; "": none failed.
using Complaints = std::string;

inline void Expect(Complaints& complaints, bool is_right, const std::string& sentence) {
  if (!is_right) complaints += sentence + "\n";
}

// Runs `body` in a child process of uid `uid` and group `gid` without supplementary groups, and
// returns its result.
Complaints AsUser(uid_t uid, gid_t gid, const std::function<Complaints()>& body);

// The same for a body that returns an exit status below 98: a nonzero status identifies the failed
// expectation. Returns 98 if a signal ended the process, and 99 if the process did not become the
// uid.
int StatusAsUser(uid_t uid, gid_t gid, const std::function<int()>& body);

}  // namespace kvd::test
