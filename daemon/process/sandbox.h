// The sandbox of the daemon's process: Landlock's rules, the filter of system calls, and
// EnterSandbox, which uses both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvd {

// Landlock (Documentation/userspace-api/landlock.rst of Linux): restricts the files, ports and
// processes that the daemon's process can reach.
//
// Only the thread that starts all other threads calls the functions of this header, at the daemon's
// start. Landlock's rules cannot be removed from a running process. The kernel headers of Debian 12
// define version 1 only, so sandbox.cc defines the constants of later versions.

// The newest version of the Landlock interface whose rights this header and sandbox.cc
// define.
inline constexpr int kLandlockAbiMax = 7;

// The rights that a ruleset of one version of the interface denies unless a rule grants them; 0:
// the version has no rights of that kind.
struct LandlockAccess {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scopes = 0;
};
LandlockAccess AccessOfAbi(int abi);
// Returns the operations that a kernel with interface version `abi` cannot restrict, for the log;
// empty from version 6 on.
std::vector<std::string> GapsOfAbi(int abi);

// A file or directory with everything below it, and the rights granted on it.
struct LandlockRule {
  std::string path;
  std::uint64_t files = 0;
};
// Sets of rights for a LandlockRule. If the path of a rule is a file, rights that apply only to
// directories are left out.
extern const std::uint64_t kLandlockReads;  // the rights to open files and list directories
extern const std::uint64_t
    // The rights of kLandlockReads, and the rights to make, write, truncate and remove files and to
    // make directories.
    kLandlockWholeFiles;
extern const std::uint64_t kLandlockRemoves;       // the right to remove files
extern const std::uint64_t kLandlockRemovesEmpty;  // the right to remove empty directories

// Restricts the calling thread, and the threads that it starts, to `rules`. Every access that
// `rules` do not grant and that the kernel's Landlock version can restrict fails with EACCES. A
// rule whose path does not exist is ignored. Returns the version of the Landlock interface that is
// in use. REQUIRES: no_new_privs is set. Errors: kUnsupported (the kernel has no Landlock, or
// Landlock is off), kIo; after an error no access is restricted.
Result<int> RestrictFiles(const std::vector<LandlockRule>& rules);

// The seccomp filter: restricts the system calls that the daemon can make. Only syscall_filter.cc
// uses libseccomp.
//
// The daemon calls FilterSyscalls once at its start. The seccomp filter applies to every thread and
// cannot be removed. A system call that the filter does not allow fails with EPERM and does not end
// the process, so a library that probes for a system call falls back to another one.

// Loads the filter for all threads of this process. REQUIRES: no_new_privs is set; the process id
// does not change afterwards. Errors: kUnsupported (the kernel's or libseccomp's text); after an
// error, system calls are not restricted.
Status FilterSyscalls();

// Sandbox: restricts the daemon's process before it starts a thread or reads a model. A restricted
// daemon can reach only its own files, and has no access to the network, to other processes, or to
// system calls that it does not use (docs/security.md).
//
// main calls EnterSandbox once, after the directories are made and the socket is bound. The sandbox
// of a running process cannot be removed. After EnterSandbox, a fault in a parser, a compute kernel
// or a library can affect only the files named in SandboxPaths.

struct SandboxPaths {
  std::vector<std::string>
      // Directories in which the daemon creates, writes and removes files: state, store, prompt
      // cache.
      data;
  // Directories in which the daemon only removes files: the directory of the socket.
  std::vector<std::string> runtime;
  // Directories in which the daemon only removes empty directories: the parent of the state's.
  std::vector<std::string> emptied{};
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
