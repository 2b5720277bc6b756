// LockFile: a file that one process holds, with its pid inside, so that a second one can be told
// who the first is.
//
// Owner: whoever holds the object; the lock goes with the process however it ends. The file itself
// stays.
#pragma once

#include <string>

#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

class LockFile {
 public:
  // Takes the lock of the file `name` in `directory` (created with mode 0600) and writes our pid
  // into it. `what` begins every message. Errors: kBusy (held; names the holder's pid), kPermission
  // (not a regular file of our own), kNoSpace, kIo.
  static Result<LockFile> Take(int directory, const std::string& name, const std::string& what);

 private:
  explicit LockFile(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

// kNoSpace for a full disk or quota, kIo else: "WHAT: DETAIL: errno text". Reads errno.
std::unexpected<Error> FailFile(const std::string& what, const char* detail);

}  // namespace kvd
