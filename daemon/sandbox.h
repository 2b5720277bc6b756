// Sandbox: restricts the daemon's process before it starts a thread or reads a model. A restricted
// daemon can reach only its own files, and has no access to the network, to other processes, or to
// system calls that it does not use (docs/security.md).
//
// main calls EnterSandbox once, after the directories are made and the socket is bound. The sandbox
// of a running process cannot be removed. After EnterSandbox, a fault in a parser, a compute kernel
// or a library can affect only the files named in SandboxPaths.
#pragma once

#include <string>
#include <vector>

namespace kvd {

struct SandboxPaths {
  std::vector<std::string>
      // Directories in which the daemon creates, writes and removes files: state, store, prompt
      // cache.
      data;
  // Directories in which the daemon only removes files: the directory of the socket.
  std::vector<std::string> runtime;
  std::vector<std::string>
      // Files and directories that the daemon only reads: every part of the model, adapters,
      // configuration.
      read_only;
};

struct Sandbox {
  // Version of the kernel's Landlock interface that is in use; 0: Landlock is off.
  int landlock_abi = 0;
  bool filters_syscalls = false;
  // The restrictions that this system does not support, each with the reason.
  std::vector<std::string> missing{};

  // Returns a text for the log: "landlock=abi7 seccomp=on", "landlock=off seccomp=off".
  std::string text() const;
};

// Restricts the process to `paths` and to reading /proc and /sys. Paths that do not exist are
// ignored. EnterSandbox never fails: Sandbox::missing lists the restrictions that the kernel
// refused, and all other restrictions hold. REQUIRES: the process has one thread. If the process
// has other threads, Sandbox::missing says so, since Landlock does not restrict these threads.
Sandbox EnterSandbox(const SandboxPaths& paths);

}  // namespace kvd
