// Private directories of ours at a place where other users make files too, such as /tmp and
// /dev/shm.
//
// The name that is expected, ROOT/STEM, may be taken by somebody else before us. Then a directory
// ROOT/STEM-SUFFIX with 16 random hexadecimal digits is made, which nobody can take beforehand, and
// found again by looking through ROOT. Daemon and client follow the same rules, so that they meet.
// What is found here is checked again on the descriptor by who opens it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "shm/error.h"

namespace kvd {

struct OwnDirectories {
  // Real directories (no links) of our effective uid without any of the forbidden mode bits:
  // ROOT/STEM first, then those with a suffix in the order of their names.
  std::vector<std::string> usable;
  // "PATH: belongs to uid 5": what has the name ROOT/STEM and is not usable; with a suffix, if it
  // is ours.
  std::vector<std::string> passed_over;
};

// At most 2^20 names of ROOT are read; a ROOT that cannot be read has none.
OwnDirectories FindOwnDirectories(const std::string& root, const std::string& stem,
                                  mode_t forbidden_mode);

// The first usable one; where there is none, one that is made with mode 0700. Errors: kIo, kNoSpace
// (the system's text).
Result<std::string> MakeOwnDirectory(const std::string& root, const std::string& stem,
                                     mode_t forbidden_mode);

}  // namespace kvd
