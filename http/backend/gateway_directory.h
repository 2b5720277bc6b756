// GatewayDirectory: the private directory of one kvd-http: its sessions' tokens, stored responses,
// running streams, and the log and saved slots of the daemon that it starts.
//
// The directory has mode 0700 and belongs to the process's uid. One process uses it at a time: the
// file `lock` is locked, and the kernel releases the lock when the process ends, also after a kill.
// The next kvd-http with the same options then finds the same directory. The default directory is
// ROOT/NAME: ROOT is $XDG_STATE_HOME/kvd-http, for root without that variable /var/lib/kvd-http,
// else ~/.local/state/kvd-http. A second kvd-http at the same time uses ROOT/NAME.2, and so on.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd::http {

class GatewayDirectory {
 public:
  // `path`: the directory (--state-dir), created with its parents if it is missing; empty: the
  // default one of `name`. Errors: kBusy (another kvd-http uses `path`), kPermission (another
  // owner, or a mode that lets others in), kIo, kNoSpace.
  static Result<GatewayDirectory> Open(const std::string& path, std::string_view name);

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view file) const { return path_ + "/" + std::string(file); }

 private:
  GatewayDirectory(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  static Result<GatewayDirectory> OpenAt(const std::string& path);

  std::string path_;
  UniqueFd lock_;
};

// Writes a file (0600) beside its place and renames it, so that a reader finds the old text or the
// new one. Errors: kIo, kNoSpace.
Status ReplaceFile(const std::string& path, std::string_view text);

// Opens a file for a lock (flock), and creates it with mode 0600. Errors: kIo.
Result<UniqueFd> OpenLockFile(const std::string& path);

}  // namespace kvd::http
