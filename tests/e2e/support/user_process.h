// A part of a test in a process of another uid. Becoming one needs root.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace kvd::test {

// What went wrong in a process of another uid, as sentences; nothing: "".
using Complaints = std::string;

inline void Expect(Complaints& complaints, bool is_right, const std::string& sentence) {
  if (!is_right) complaints += sentence + "\n";
}

// What `body` returns in a child process of that uid and group, without other groups.
Complaints AsUser(uid_t uid, gid_t gid, const std::function<Complaints()>& body);

}  // namespace kvd::test
