// Landlock (Documentation/userspace-api/landlock.rst of Linux): restricts the files, ports and
// processes that the daemon's process can reach.
//
// Only the thread that starts all other threads calls the functions of this header, at the daemon's
// start. Landlock's rules cannot be removed from a running process. The kernel headers of Debian 12
// define version 1 only, so landlock_rules.cc defines the constants of later versions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvd {

// The newest version of the Landlock interface whose rights this header and landlock_rules.cc
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
extern const std::uint64_t kLandlockRemoves;  // the right to remove files

// Restricts the calling thread, and the threads that it starts, to `rules`. Every access that
// `rules` do not grant and that the kernel's Landlock version can restrict fails with EACCES. A
// rule whose path does not exist is ignored. Returns the version of the Landlock interface that is
// in use. REQUIRES: no_new_privs is set. Errors: kUnsupported (the kernel has no Landlock, or
// Landlock is off), kIo; after an error no access is restricted.
Result<int> RestrictFiles(const std::vector<LandlockRule>& rules);

}  // namespace kvd
