// Private directories below a root in which other users can also create files, such as /tmp and
// /dev/shm.
//
// The preferred path of a private directory is ROOT/STEM. Another user can create a file named
// ROOT/STEM first. If so, the daemon creates ROOT/STEM-SUFFIX, where SUFFIX is 16 random
// hexadecimal digits that another user cannot guess, and later finds this directory by searching
// ROOT. The daemon and the client follow the same rules, so both find the same directory. Code that
// opens a directory that these functions have found checks the directory again on its descriptor.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace kvd {

struct OwnDirectories {
  // The usable directories: real directories (no links) that belong to the effective uid and have
  // none of the forbidden mode bits. ROOT/STEM comes first; directories with a suffix follow,
  // ordered by name.
  std::vector<std::string> usable;
  // "PATH: reason" for ROOT/STEM if it exists and is not usable, and for unusable directories with
  // a suffix that belong to the effective uid.
  std::vector<std::string> passed_over;
};

// Reads at most 2^20 names of ROOT. If ROOT cannot be read, FindOwnDirectories finds no
// directories.
OwnDirectories FindOwnDirectories(const std::string& root, const std::string& stem,
                                  mode_t forbidden_mode);

// Returns the first usable directory. If there is no usable directory, MakeOwnDirectory creates one
// with mode 0700. Errors: kIo, kNoSpace (the system's text).
Result<std::string> MakeOwnDirectory(const std::string& root, const std::string& stem,
                                     mode_t forbidden_mode);

}  // namespace kvd
