// The private directory that holds `pool` and `meta`, and the lock that keeps a second daemon out
// of it.
//
// Owner: main, for the daemon's whole life; the lock goes with the process however it ends. The
// directory is ours alone: a real directory (no symbolic link), of our own uid, mode 0700; so no
// one else can truncate what we have mapped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/lock_file.h"
#include "shm/error.h"
#include "shm/unique_fd.h"

namespace kvd {

class StateDirectory {
 public:
  // Opens `path`, creating its last component if it is missing, checks owner and mode, takes the
  // lock and writes our pid into it. Errors, each naming the path: kPermission (another owner,
  // others may enter), kInvalidArgument (not a directory, a symbolic link), kBusy (another daemon
  // has it; its pid), kNoSpace, kIo (the system's text).
  static Result<StateDirectory> Open(const std::string& path);
  // The default place for a daemon of that name: where an earlier one left its state; else the first
  // of the runtime directory and /dev/shm that is tmpfs and has `needed_bytes` free, else a directory
  // under the temporary directory (`on_tmpfs` is then false). What other users have put at these
  // places is neither used nor in the way (shm/own_directory.h); passed_over() names it.
  static Result<StateDirectory> OpenDefault(const std::string& name, std::uint64_t needed_bytes);

  // Removes the state that lies there, also what was set aside. False: there was none.
  bool RemoveState();
  // The same for `path`, or for every default place of that name if it is nullopt. Errors: those of
  // Open; a path that does not exist is none, and neither is what another user has put at a default
  // place.
  struct Forgotten {
    std::vector<std::string> removed;      // paths where there was a state
    std::vector<std::string> passed_over;  // as of passed_over()
  };
  static Result<Forgotten> Forget(const std::optional<std::string>& path, const std::string& name);

  int descriptor() const { return directory_.get(); }
  const std::string& path() const { return path_; }
  bool on_tmpfs() const { return on_tmpfs_; }
  // Of OpenDefault: what has the name of a default place and is not a private directory of ours, each
  // with the reason.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  StateDirectory() = default;

  std::string path_;
  UniqueFd directory_;
  std::optional<LockFile> lock_;
  std::vector<std::string> passed_over_;
  bool on_tmpfs_ = false;
};

}  // namespace kvd
