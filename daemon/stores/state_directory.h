// StateDirectory: the private directory of a daemon's state, and the lock that prevents a second
// daemon from using the directory.
//
// A directory that the user names holds the state of one model: `pool` and `meta`
// (engine/memory/state_files.h). The default directory of a daemon's name holds the lock and a
// folder for the state of each model that daemons of that name have served, "m-" and 16 digits of
// the model's fingerprint, so that a daemon that returns to a model finds its state.
//
// Owner: main, for the daemon's whole life. The kernel releases the lock when the process ends,
// also after a kill. The directory is a real directory (not a symbolic link) of the daemon's uid
// with mode 0700, so no other user can truncate the mapped files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "daemon/process/lock_file.h"

namespace kvd {

// A state that a directory holds.
struct StoredState {
  std::string path;
  std::string model_id;    // name of the folder; empty: there is no folder for the model
  std::string model_name;  // as the `meta` says; empty: it says nothing
  std::uint64_t bytes = 0;

  // "PATH (model \"NAME\", 12 bytes)".
  std::string text() const;
};

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

  // Opens the folder of a model's state, which descriptor() and path() are from now on; creates the
  // folder if it is missing. Without effect on a directory that was opened by its path. Errors: as
  // for Open.
  Status EnterModel(const std::string& model_id);
  static std::string ModelId(std::span<const std::uint64_t, 4> fingerprint);

  // Removes the files of the state, except those that are kept aside. Returns false if there was no
  // state.
  bool RemoveState();
  // Removes the folder of a model's state, the lock and, in a default place, the daemon's
  // directory, unless other files are in them. REQUIRES: nothing is written to the directory
  // afterwards.
  void RemoveDirectory();
  // The states that daemons of that name have left in all default places.
  static std::vector<StoredState> FindStates(const std::string& name);
  // Removes the state in `path`, or, if `path` is nullopt, all states of the daemon `name` in the
  // default places, or those of one model: `only` is its model_id or its model_name. Errors: those
  // of Open; kNotFound (no state is of the model `only`; the message lists the models). Forget
  // returns no error if `path` does not exist or if a default place belongs to another user.
  struct Forgotten {
    std::vector<StoredState> removed;
    // The paths that were passed over, as passed_over() lists them.
    std::vector<std::string> passed_over;
  };
  static Result<Forgotten> Forget(const std::optional<std::string>& path, const std::string& name,
                                  const std::optional<std::string>& only = {});

  int descriptor() const { return model_ ? model_.get() : directory_.get(); }
  // The directory of the daemon's name, which has the folders of models.
  int daemon_descriptor() const { return directory_.get(); }
  const std::string& path() const { return path_; }
  // The name of the model's folder; empty: there is none.
  const std::string& model_folder() const { return model_id_; }
  bool on_tmpfs() const { return on_tmpfs_; }
  // After OpenDefault: the paths that have the name of a default place but are not a private
  // directory of this uid, each with the reason.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  StateDirectory() = default;

  std::string path_;
  std::string daemon_path_;  // of directory_
  std::string model_id_;     // name of model_
  UniqueFd directory_;
  UniqueFd model_;  // folder of the model's state in directory_; empty: directory_ has the state
  bool has_folders_ = false;
  std::optional<LockFile> lock_;
  std::vector<std::string> passed_over_;
  bool on_tmpfs_ = false;
  bool is_default_ = false;  // true: in a default place
};

}  // namespace kvd
