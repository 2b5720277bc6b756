// SessionStore: opens the sessions of tenants with daemons, and keeps their tokens in a file, so
// that the next kvd-http resumes them after this one was killed.
//
// The file `sessions` of the gateway's directory (0600) has a line for each session: the daemon's
// name, the tenant's name ("-": no tenant), and 32 hexadecimal digits. It is replaced as a whole. A
// line that cannot be read is dropped. The loop's thread uses a SessionStore.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/backend/daemon_session.h"
#include "http/backend/tenants.h"
#include "http/loop/await.h"

namespace kvd::http {

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
