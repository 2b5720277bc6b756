#include "http/serve/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "http/serve/header_text.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest DigestOf(std::string_view key) {
  Digest digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

// The key of a request: as in llama-server, Authorization without "Bearer " if it has it, and
// X-Api-Key if there is no Authorization.
std::string_view KeyOf(const Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view value = request.header("Authorization");
  if (value.empty()) value = request.header("X-Api-Key");
  if (EqualsIgnoringCase(value.substr(0, kBearer.size()), kBearer)) {
    value.remove_prefix(kBearer.size());
  }
  return Trimmed(value);
}

}  // namespace

KeyCheck CheckKeyList(const std::vector<std::string>& keys, std::string tenant) {
  std::vector<Digest> digests;
  digests.reserve(keys.size());
  for (const std::string& key : keys) digests.push_back(DigestOf(key));
  return [digests = std::move(digests),
          tenant = std::move(tenant)](std::string_view key) -> Result<KeyOwner> {
    const Digest digest = DigestOf(key);
    int found = 0;
    for (const Digest& known : digests) {
      found |= static_cast<int>(CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0);
    }
    if (found == 0) return Fail(Code::kPermission, "Invalid API Key");
    return KeyOwner{tenant};
  };
}

AccessRules::AccessRules(AccessOptions options)
    : options_(std::move(options)), own_host_(HostWithoutPort(options_.host)) {
  std::string_view rest = options_.cors_origins ? *options_.cors_origins : std::string_view();
  while (!rest.empty()) {
    const std::string_view origin = Trimmed(TakeUntil(rest, ','));
    if (origin == "*") {
      names_all_origins_ = true;
    } else if (origin == "localhost") {
      names_loopback_origins_ = true;
    } else if (!origin.empty()) {
      origins_.emplace_back(origin);
    }
  }
}

std::optional<GatewayReply> AccessRules::Refuse(Request& request, RouteAccess route_access) const {
  request.key = KeyOf(request);
  if (!options_.check_key) {
    if (!options_.is_loopback) return std::nullopt;
    return RefuseForeignPage(request);
  }
  if (route_access == RouteAccess::kPublic) return std::nullopt;
  Result<KeyOwner> caller = options_.check_key(request.key);
  if (!caller) {
    GatewayReply reply = ErrorReply(401, "Invalid API Key");
    reply.headers.push_back(Header{"WWW-Authenticate", "Bearer"});
    return reply;
  }
  request.tenant = std::move(caller->tenant);
  return std::nullopt;
}

std::optional<GatewayReply> AccessRules::RefuseForeignPage(const Request& request) const {
  const std::string_view origin = request.header("Origin");
  if (!origin.empty() && !IsNamedOrigin(origin) && !IsLoopbackHost(HostOfOrigin(origin))) {
    return ErrorReply(403,
                      "the Origin is not allowed: a server on loopback without a key serves "
                      "loopback pages and the origins of --cors-origins only");
  }
  // An HTTP/1.0 request may have no Host. A browser always sends one.
  const std::string_view header = request.header("Host");
  if (header.empty()) return std::nullopt;
  const std::string host = HostWithoutPort(header);
  if (IsLoopbackHost(host) || (!host.empty() && host == own_host_)) return std::nullopt;
  return ErrorReply(403,
                    "the Host is not allowed: a server on loopback without a key serves loopback "
                    "names and the name of --host only");
}

bool AccessRules::IsNamedOrigin(std::string_view origin) const {
  if (names_all_origins_) return true;
  if (names_loopback_origins_ && IsLoopbackHost(HostOfOrigin(origin))) return true;
  return std::ranges::find(origins_, origin) != origins_.end();
}

bool AccessRules::IsAllowedOrigin(std::string_view origin) const {
  if (options_.cors_origins) return IsNamedOrigin(origin);
  const bool is_protected = options_.is_loopback && !options_.check_key;
  return !is_protected || IsLoopbackHost(HostOfOrigin(origin));
}

std::vector<Header> AccessRules::CorsHeaders(std::string_view origin) const {
  if (origin.empty() || !IsAllowedOrigin(origin)) return {};
  return {Header{"Access-Control-Allow-Origin", std::string(origin)}, Header{"Vary", "Origin"}};
}

GatewayReply AccessRules::OptionsReply() {
  GatewayReply reply;
  reply.content_type = "text/html";
  reply.headers = {Header{"Access-Control-Allow-Credentials", "true"},
                   Header{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                   Header{"Access-Control-Allow-Headers", "*"}};
  return reply;
}

}  // namespace kvd::http
