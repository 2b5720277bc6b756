// Landlock (Documentation/userspace-api/landlock.rst of Linux): which files, ports and processes
// this process can still reach.
//
// Start-up only, by the thread that starts all others. Nothing can take the rules back. The
// kernel's headers of Debian 12 know version 1 alone, so numbers of later versions are written
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/error.h"

namespace kvd {

inline constexpr int kLandlockAbiMax = 7;  // the newest version whose rights are known here

// What a ruleset of one version of the interface takes away unless a rule gives it back; 0:
// nothing.
struct LandlockAccess {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scopes = 0;
};
LandlockAccess AccessOfAbi(int abi);
// What a kernel of that version cannot restrict, for the log; empty from version 6 on.
std::vector<std::string> GapsOfAbi(int abi);

// A file or directory, with all below it, and the rights that it gives back.
struct LandlockRule {
  std::string path;
  std::uint64_t files = 0;
};
// Rights of rules. Those that mean nothing for a file are left out where the path is one.
extern const std::uint64_t kLandlockReads;  // open and list
extern const std::uint64_t
    kLandlockWholeFiles;  // also make, write, truncate, remove files and make directories
extern const std::uint64_t kLandlockRemoves;  // remove files

// Restricts the calling thread and those it starts to `rules`; everything else that the kernel's
// version knows is refused with EACCES. A path that does not exist gives nothing. Returns the
// version in use. REQUIRES: no_new_privs is set. Errors: kUnsupported (no Landlock in this kernel,
// or it is off), kIo; nothing is restricted then.
Result<int> RestrictFiles(const std::vector<LandlockRule>& rules);

}  // namespace kvd
