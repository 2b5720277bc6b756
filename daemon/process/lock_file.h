// LockFile: a file that one process holds locked and that contains its pid, so that the error of a
// second process can name the process that holds the lock.
//
// Owner: the caller of Take. The kernel releases the lock when the process ends, also after a kill.
// A lock file is removed only by its holder, and Take holds the file that the path names: a process
// that has waited for a file which its holder has removed takes the next one.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

class LockFile {
 public:
  // Creates the file `name` in `directory` with mode 0600 if the file is missing, locks the file,
  // and writes this process's pid into it. Waits up to two seconds for another process that holds
  // the lock, which may be ending. `what` begins every error message. Errors: kBusy (another
  // process holds the lock; the message names its pid), kPermission (not a regular file of this
  // process's uid), kNoSpace, kIo.
  static Result<LockFile> Take(int directory, const std::string& name, const std::string& what);

  // Removes the file, whose lock this process keeps until the LockFile ends. `directory`: as of
  // Take.
  void Remove(int directory) const;

 private:
  LockFile(UniqueFd file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}
  UniqueFd file_;
  std::string name_;
};

// Returns the error "WHAT: DETAIL: errno text" with code kNoSpace for a full disk or quota, else
// kIo. FailFile reads errno.
std::unexpected<Error> FailFile(const std::string& what, const char* detail);

}  // namespace kvd
