// StateDirectory: the private directory that holds `pool` and `meta`, and the lock that prevents a
// second daemon from using the directory.
//
// Owner: main, for the daemon's whole life. The kernel releases the lock when the process ends,
// also after a kill. The directory is a real directory (not a symbolic link) of the daemon's uid
// with mode 0700, so no other user can truncate the mapped files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "daemon/process/lock_file.h"

namespace kvd {

class StateDirectory {
 public:
  // Opens `path`, creates its last component if it is missing, checks its owner and mode, takes the
  // lock and writes this process's pid into the lock file. Errors, each naming the path:
  // kPermission (another owner, or a mode other than 0700), kInvalidArgument (not a directory, or a
  // symbolic link), kBusy (another daemon uses the directory; the message names its pid), kNoSpace,
  // kIo (the system's text).
  static Result<StateDirectory> Open(const std::string& path);
  // Opens the default directory of the daemon `name`. If an earlier daemon left its state in a
  // default place, OpenDefault uses that place. If no earlier daemon left its state, OpenDefault
  // uses the runtime directory or /dev/shm: the first of the two that is a tmpfs and has
  // `needed_bytes` free. If neither of the two is usable, OpenDefault uses the temporary directory
  // and sets `on_tmpfs` to false. Files that other users have created at these places are not used
  // and cause no error (shm/own_directory.h); passed_over() lists them.
  static Result<StateDirectory> OpenDefault(const std::string& name, std::uint64_t needed_bytes);

  // Removes the files of the state, including damaged files that were renamed. Returns false if no
  // such file existed.
  bool RemoveState();
  // Removes the lock and, in a default place, the directory, unless other files are in it.
  // REQUIRES: nothing is written to the directory afterwards.
  void RemoveDirectory();
  // Removes the state in `path`, or in every default place of the daemon `name` if `path` is
  // nullopt. Errors: those of Open. Forget returns no error if `path` does not exist or if a
  // default place belongs to another user.
  struct Forgotten {
    std::vector<std::string> removed;  // the paths that held a state
    // The paths that were passed over, as passed_over() lists them.
    std::vector<std::string> passed_over;
  };
  static Result<Forgotten> Forget(const std::optional<std::string>& path, const std::string& name);

  int descriptor() const { return directory_.get(); }
  const std::string& path() const { return path_; }
  bool on_tmpfs() const { return on_tmpfs_; }
  // After OpenDefault: the paths that have the name of a default place but are not a private
  // directory of this uid, each with the reason.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  StateDirectory() = default;

  std::string path_;
  UniqueFd directory_;
  std::optional<LockFile> lock_;
  std::vector<std::string> passed_over_;
  bool on_tmpfs_ = false;
  bool is_default_ = false;  // true: in a default place
};

}  // namespace kvd
