#include "http/backend/gateway_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/name.h"
#include "base/text.h"
#include "http/backend/digest.h"

namespace kvd::http {
namespace {

// How many kvd-http with the same name find a default directory of their own.
constexpr int kInstancesMax = 64;

std::string DefaultRoot() {
  if (const char* const state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return std::string(state) + "/kvd-http";
  }
  if (::geteuid() == 0) return "/var/lib/kvd-http";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') {
    const passwd* const entry = ::getpwuid(::geteuid());
    home = entry == nullptr ? "/" : entry->pw_dir;
  }
  return std::string(home) + "/.local/state/kvd-http";
}

// Creates the directory and its missing parents, each with mode 0700.
Status MakeDirectories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno(part);
    if (end == std::string::npos) return {};
  }
}

}  // namespace

Result<UniqueFd> OpenLockFile(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailErrno(path);
  return file;
}

Result<GatewayDirectory> GatewayDirectory::OpenAt(const std::string& path) {
  KVD_CHECK_OK(MakeDirectories(path));
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return FailErrno(path);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 077) != 0) {
    return Fail(Code::kPermission, path,
                ": is not a directory of this user that is closed to others (mode 0700)");
  }
  KVD_TRY(UniqueFd lock, OpenLockFile(path + "/lock"));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FailErrno(path + "/lock");
    return Fail(Code::kBusy, path, ": another kvd-http uses this directory");
  }
  return GatewayDirectory(path, std::move(lock));
}

Result<GatewayDirectory> GatewayDirectory::Open(const std::string& path, std::string_view name) {
  if (!path.empty()) {
    // A path without an end slash, so that each part is created once.
    std::string plain = path;
    while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
    return OpenAt(plain);
  }
  const std::string first = Concat(DefaultRoot(), "/", name);
  for (int instance = 1;; ++instance) {
    Result<GatewayDirectory> opened = OpenAt(instance == 1 ? first : Concat(first, ".", instance));
    if (opened || opened.error().code != Code::kBusy || instance == kInstancesMax) return opened;
  }
}

Status ReplaceFile(const std::string& path, std::string_view text) {
  const std::string fresh = path + ".new";
  UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailErrno(fresh);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const int saved = errno;
      (void)::unlink(fresh.c_str());
      errno = saved;
      return FailErrno(fresh);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return FailErrno(path);
  }
  return {};
}

namespace {

// A daemon that is started again reads its model first.
constexpr std::chrono::milliseconds kReconnectTime{60'000};
constexpr std::chrono::milliseconds kSessionConnectTime{5'000};
constexpr std::string_view kNoTenant = "-";

}  // namespace

SessionStore::SessionStore(Loop& loop, std::string path) : loop_(loop), path_(std::move(path)) {
  Read();
}

void SessionStore::Read() {
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string daemon;
    std::string tenant;
    std::string digits;
    Token token{};
    words >> daemon >> tenant >> digits;
    if (!IsName(daemon) || !ReadHex(digits, token)) continue;
    tokens_[{daemon, tenant == kNoTenant ? "" : tenant}] = token;
  }
}

void SessionStore::Write() const {
  std::string text;
  for (const auto& [key, token] : tokens_) {
    const auto& [daemon, tenant] = key;
    text += Concat(daemon, " ", tenant.empty() ? kNoTenant : tenant, " ", HexText(token), "\n");
  }
  if (const Status written = ReplaceFile(path_, text); !written) {
    std::fprintf(stderr, "kvd-http: %s\n", written.error().message.c_str());
  }
}

Result<std::shared_ptr<DaemonSession>> SessionStore::Open(const std::string& daemon,
                                                          const TenantRecord& tenant) {
  ConnectOptions options{.daemon_name = daemon,
                         .client_name = "kvd-http",
                         .cache_salt = tenant.cache_salt,
                         .tenant = tenant.id,
                         .outlive_seconds = tenant.outlive_seconds,
                         .connect_timeout = kSessionConnectTime,
                         .reconnect_timeout = kReconnectTime};
  const Key key{daemon, tenant.name};
  const auto stored = tokens_.find(key);
  if (stored != tokens_.end()) options.session_token = stored->second;
  Result<std::shared_ptr<DaemonSession>> session = DaemonSession::Open(loop_, options);
  if (!session && session.error().code == Code::kSessionLost) {
    options.session_token = {};
    session = DaemonSession::Open(loop_, options);
  }
  if (!session && session.error().code == Code::kNoSpace && options.outlive_seconds != 0) {
    options.outlive_seconds = 0;
    session = DaemonSession::Open(loop_, options);
  }
  if (!session) return session;
  const Token& token = (*session)->session().session_token;
  if (stored == tokens_.end() || stored->second != token) {
    tokens_[key] = token;
    Write();
  }
  return session;
}

std::vector<std::string> SessionStore::TenantsOf(const std::string& daemon) const {
  std::vector<std::string> names;
  for (const auto& [key, token] : tokens_) {
    if (key.first == daemon) names.push_back(key.second);
  }
  return names;
}

void SessionStore::Forget(const std::string& daemon) {
  const auto count =
      std::erase_if(tokens_, [&](const auto& entry) { return entry.first.first == daemon; });
  if (count != 0) Write();
}

}  // namespace kvd::http
