// What the daemon takes from itself before it starts a thread and reads a model: every file but its
// own, the network, other processes, and all system calls that it does not use (docs/security.md).
//
// Called once by main, after the directories were made and the socket was bound. Cannot be taken
// back. A fault in a parser, a kernel or a library then reaches the files that are named here and
// no others.
#pragma once

#include <string>
#include <vector>

namespace kvd {

struct SandboxPaths {
  std::vector<std::string>
      data;  // directories in which files are made, written and removed: state, store, prompt cache
  std::vector<std::string> runtime;  // directories in which files are removed: the socket's
  std::vector<std::string>
      read_only;  // files and directories: every part of the model, adapters, configuration
};

struct Sandbox {
  int landlock_abi = 0;  // 0: Landlock is off
  bool filters_syscalls = false;
  // What this system does not let us take away, each with the reason.
  std::vector<std::string> missing{};

  // "landlock=abi7 seccomp=on", "landlock=off seccomp=off".
  std::string text() const;
};

// Restricts the process to `paths`, and to reading /proc and /sys. Paths that do not exist are
// none. Never fails: what the kernel refuses is in `missing`, and the rest holds. REQUIRES: one
// thread. Threads that exist are in `missing`: Landlock does not hold for them.
Sandbox EnterSandbox(const SandboxPaths& paths);

}  // namespace kvd
