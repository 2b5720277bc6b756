// The private directory of a kvd-http, and the tokens of sessions in it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "http/backend/daemon_session.h"
#include "http/backend/tenants.h"
#include "http/loop/await.h"

namespace kvd::http {

// GatewayDirectory: the private directory of one kvd-http: its sessions' tokens, stored responses,
// running streams, and the log and saved slots of the daemon that it starts.
//
// The directory has mode 0700 and belongs to the process's uid. One process uses it at a time: the
// file `lock` is locked, and the kernel releases the lock when the process ends, also after a kill.
// The next kvd-http with the same options then finds the same directory. The default directory is
// ROOT/NAME: ROOT is $XDG_STATE_HOME/kvd-http, for root without that variable /var/lib/kvd-http,
// else ~/.local/state/kvd-http. A second kvd-http at the same time uses ROOT/NAME.2, and so on.
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

// SessionStore: opens the sessions of tenants with daemons, and keeps their tokens in a file, so
// that the next kvd-http resumes them after this one was killed.
//
// The file `sessions` of the gateway's directory (0600) has a line for each session: the daemon's
// name, the tenant's name ("-": no tenant), and 32 hexadecimal digits. It is replaced as a whole. A
// line that cannot be read is dropped. The loop's thread uses a SessionStore.
class SessionStore {
 public:
  // Reads `path` if it exists.
  SessionStore(Loop& loop, std::string path);

  // Resumes the tenant's session with the daemon of this name, or opens a new one if there is no
  // token or the daemon does not know it. If the daemon's limits do not allow sessions that outlive
  // the gateway, the session ends with it. Errors: those of Client::Connect.
  Result<std::shared_ptr<DaemonSession>> Open(const std::string& daemon,
                                              const TenantRecord& tenant);
  // The names of the tenants whose sessions with a daemon an earlier process has opened.
  std::vector<std::string> TenantsOf(const std::string& daemon) const;
  // Forgets the sessions with a daemon that has been stopped.
  void Forget(const std::string& daemon);

  std::size_t size() const { return tokens_.size(); }

 private:
  using Token = std::array<std::uint8_t, 16>;
  using Key = std::pair<std::string, std::string>;  // daemon and tenant

  void Read();
  // An error is written to standard error: the session works, but cannot be resumed.
  void Write() const;

  Loop& loop_;
  std::string path_;
  std::map<Key, Token> tokens_;
};

}  // namespace kvd::http
