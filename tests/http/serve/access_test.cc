#include "http/serve/access.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvd::http {
namespace {

Request RequestWith(std::vector<Header> headers) {
  Request request;
  request.method = "POST";
  request.path = "/completion";
  request.headers = std::move(headers);
  return request;
}

int StatusOf(const AccessRules& access, std::vector<Header> headers,
             RouteAccess route_access = RouteAccess::kKey) {
  Request request = RequestWith(std::move(headers));
  const std::optional<GatewayReply> refusal = access.Refuse(request, route_access);
  return refusal ? refusal->status : 200;
}

TEST(AccessTest, NeedsAKeyIfThereAreKeys) {
  const AccessRules access({.check_key = CheckKeyList({"first", "second"}, "everyone")});
  EXPECT_EQ(StatusOf(access, {{"Authorization", "Bearer first"}}), 200);
  EXPECT_EQ(StatusOf(access, {{"authorization", "bearer second"}}), 200);
  EXPECT_EQ(StatusOf(access, {{"X-Api-Key", "second"}}), 200);
  EXPECT_EQ(StatusOf(access, {}), 401);
  EXPECT_EQ(StatusOf(access, {{"Authorization", "Bearer third"}}), 401);
  EXPECT_EQ(StatusOf(access, {{"Authorization", "Bearer firs"}}), 401);
  EXPECT_EQ(StatusOf(access, {{"Authorization", "Bearer "}}), 401);
  EXPECT_EQ(StatusOf(access, {{"X-Api-Key", ""}}), 401);
  EXPECT_EQ(StatusOf(access, {}, RouteAccess::kPublic), 200);
  // A page of a foreign site does not know the key.
  EXPECT_EQ(StatusOf(access, {{"X-Api-Key", "first"}, {"Host", "evil.com"}}), 200);

  Request request = RequestWith({{"X-Api-Key", "second"}});
  EXPECT_FALSE(access.Refuse(request, RouteAccess::kKey));
  EXPECT_EQ(request.key, "second");
  EXPECT_EQ(request.tenant, "everyone");
  const std::optional<GatewayReply> refusal =
      access.Refuse(request = RequestWith({}), RouteAccess::kKey);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->body,
            R"({"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}})");
}

TEST(AccessTest, AsksTheTenantsForTheOwnerOfAKey) {
  const AccessRules access({.check_key = [](std::string_view key) -> Result<KeyOwner> {
    if (key != "k") return Fail(Code::kPermission, "no");
    return KeyOwner{"team"};
  }});
  Request request = RequestWith({{"Authorization", "Bearer k"}});
  EXPECT_FALSE(access.Refuse(request, RouteAccess::kKey));
  EXPECT_EQ(request.tenant, "team");
}

struct PageCase {
  std::string host;
  std::string origin;
  int status;
};

TEST(AccessTest, RefusesForeignPagesOnLoopbackWithoutKeys) {
  const AccessRules access(
      {.host = "Gateway.local:1", .cors_origins = "https://app.example.com, localhost"});
  const std::vector<PageCase> cases = {
      {"127.0.0.1:8080", "", 200},
      {"localhost", "", 200},
      {"LOCALHOST:1", "", 200},
      {"[::1]:8080", "", 200},
      {"127.200.0.1", "", 200},
      {"gateway.local:8080", "", 200},
      {"evil.com", "", 403},
      {"localhost.evil.com", "", 403},
      {"127.0.0.1.evil.com:8080", "", 403},
      {"10.0.0.1", "", 403},
      {"[::1]evil.example", "", 403},
      {"[::1", "", 403},
      {"127.0.0.1:80:80", "", 403},
      {"localhost", "http://[::1]evil.example", 403},
      {"localhost", "http://localhost:3000", 200},
      {"localhost", "http://[::1]", 200},
      {"localhost", "https://app.example.com", 200},
      {"localhost", "https://app.example.com:444", 403},
      {"localhost", "http://app.example.com", 403},
      {"localhost", "http://evil.com", 403},
      {"localhost", "http://localhost.evil.com", 403},
      {"localhost", "null", 403},
      {"localhost", "localhost", 403},
      {"evil.com", "http://localhost", 403},
  };
  for (const PageCase& each : cases) {
    std::vector<Header> headers = {{"Host", each.host}};
    if (!each.origin.empty()) headers.push_back({"Origin", each.origin});
    EXPECT_EQ(StatusOf(access, headers), each.status) << each.host << " " << each.origin;
    EXPECT_EQ(StatusOf(access, headers, RouteAccess::kPublic), each.status) << each.host;
  }
  EXPECT_EQ(StatusOf(access, {}), 200);  // HTTP/1.0 without a Host
  // A malformed Host does not equal a --host without a name.
  EXPECT_EQ(StatusOf(AccessRules({.host = "unix:/a"}), {{"Host", "[a"}}), 403);
}

TEST(AccessTest, AppliesTheOriginCheckOnlyOnLoopback) {
  const AccessRules access({.is_loopback = false});
  EXPECT_EQ(StatusOf(access, {{"Host", "evil.com"}, {"Origin", "http://evil.com"}}), 200);
}

TEST(AccessTest, ServesAllOriginsIfTheOperatorNamesThem) {
  const AccessRules access({.cors_origins = "*"});
  EXPECT_EQ(StatusOf(access, {{"Host", "localhost"}, {"Origin", "http://evil.com"}}), 200);
}

std::string AllowedOrigin(const AccessRules& access, std::string_view origin) {
  for (const Header& header : access.CorsHeaders(origin)) {
    if (header.name == "Access-Control-Allow-Origin") return header.value;
  }
  return "";
}

TEST(AccessTest, EchoesOriginsThatAreAllowed) {
  const KeyCheck check = CheckKeyList({"k"}, "");
  const AccessRules open({.check_key = check});
  for (const char* origin : {"localhost", "web.mydomain.fr", "origin", "http://evil.com"}) {
    EXPECT_EQ(AllowedOrigin(open, origin), origin);
  }
  EXPECT_TRUE(open.CorsHeaders("").empty());

  const AccessRules own({.check_key = check, .cors_origins = "localhost"});
  for (const char* origin : {"http://localhost", "http://localhost:8080", "http://127.0.0.1",
                             "http://127.0.0.1:3000", "http://[::1]", "http://[::1]:3000"}) {
    EXPECT_EQ(AllowedOrigin(own, origin), origin);
  }
  for (const char* origin : {"http://web.mydomain.fr", "http://evil.com", "http://notlocalhost",
                             "http://localhost.evil.com"}) {
    EXPECT_EQ(AllowedOrigin(own, origin), "") << origin;
  }

  const AccessRules keyless({});
  EXPECT_EQ(AllowedOrigin(keyless, "http://localhost:3000"), "http://localhost:3000");
  EXPECT_EQ(AllowedOrigin(keyless, "http://evil.com"), "");
}

}  // namespace
}  // namespace kvd::http
