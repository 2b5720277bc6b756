#include "http/backend/session_store.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/name.h"
#include "base/text.h"
#include "http/backend/digest.h"
#include "http/backend/gateway_directory.h"

namespace kvd::http {
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
