// AccessRules: who may use the server: keys, CORS, and the protection against DNS rebinding.
//
// DNS rebinding: a web page of a foreign site can reach a server on loopback through a name that
// its DNS server points to 127.0.0.1. The browser names that foreign host in Host and Origin, so a
// server on loopback without keys refuses them. With keys the page lacks the key.
//
// An AccessRules does not change after it was made; the loop's thread uses it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/serve/request.h"
#include "http/serve/router.h"

namespace kvd::http {

// The owner of a key.
struct KeyOwner {
  std::string tenant;
};

// Finds the owner of a key. Errors: kPermission: no such key. Must take the same time for any key
// of the same length.
using KeyCheck = std::function<Result<KeyOwner>(std::string_view key)>;

// A check for a list of keys, which all belong to `tenant`. It compares SHA-256 digests in constant
// time.
KeyCheck CheckKeyList(const std::vector<std::string>& keys, std::string tenant);

struct AccessOptions {
  KeyCheck check_key = {};  // null: the server needs no key
  bool is_loopback = true;  // the server listens on a loopback address
  std::string host = {};    // --host: a further name that the Host header may have
  // --cors-origins: origins between commas, "localhost" for every loopback origin, "*" for all.
  // Without it all origins are allowed, but on loopback without keys only loopback origins are.
  std::optional<std::string> cors_origins = {};
};

class AccessRules {
 public:
  explicit AccessRules(AccessOptions options);

  // Returns the reply that refuses a request, or none. Sets the request's key and tenant.
  std::optional<GatewayReply> Refuse(Request& request, RouteAccess route_access) const;

  // The CORS headers of a reply to a request with this Origin: they name it if it is allowed.
  std::vector<Header> CorsHeaders(std::string_view origin) const;
  // The reply to OPTIONS, without CorsHeaders.
  static GatewayReply OptionsReply();

 private:
  bool IsNamedOrigin(std::string_view origin) const;
  bool IsAllowedOrigin(std::string_view origin) const;
  std::optional<GatewayReply> RefuseForeignPage(const Request& request) const;

  AccessOptions options_;
  std::string own_host_;  // lower case, without a port
  std::vector<std::string> origins_;
  bool names_all_origins_ = false;
  bool names_loopback_origins_ = false;
};

}  // namespace kvd::http
