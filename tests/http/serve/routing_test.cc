// Router, targets, hosts, error bodies and reply heads, without a server.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/serve/header_text.h"
#include "http/serve/listening_socket.h"
#include "http/serve/reply_writer.h"
#include "http/serve/request.h"
#include "http/serve/router.h"

namespace kvd::http {
namespace {

using Parts = std::vector<std::string>;

Router MakeRouter() {
  Router router;
  for (const char* pattern : {"/", "/a", "/a/{}", "/a/{}/b/{}", "/rest/{*}", "/a/fixed"}) {
    router.Add(Route{.method = "GET", .pattern = pattern, .handler = nullptr});
  }
  router.Add(Route{.method = "POST", .pattern = "/a", .handler = nullptr});
  router.Add(Route{.method = "DELETE", .pattern = "/a", .handler = nullptr});
  return router;
}

TEST(RouterTest, MatchesWholePaths) {
  const Router router = MakeRouter();
  const auto pattern_of = [&](std::string_view path) {
    const Router::Match match = router.Find("GET", path);
    return match.route == nullptr ? std::string("none") : match.route->pattern;
  };
  EXPECT_EQ(pattern_of("/"), "/");
  EXPECT_EQ(pattern_of("/a"), "/a");
  EXPECT_EQ(pattern_of("/a/x"), "/a/{}");
  EXPECT_EQ(pattern_of("/a/fixed"), "/a/{}");  // the first one serves
  EXPECT_EQ(pattern_of("/a/x/b/y"), "/a/{}/b/{}");
  EXPECT_EQ(pattern_of("/rest/x"), "/rest/{*}");
  EXPECT_EQ(pattern_of("/rest/x/y/"), "/rest/{*}");
  for (const char* path : {"", "*", "a", "//", "/a/", "/a//b/y", "/a/x/", "/a/x/b", "/a/x/c/y",
                           "/rest", "/rest/", "/A", "/aa", "/a/x/b/y/z"}) {
    EXPECT_EQ(pattern_of(path), "none") << path;
  }
}

TEST(RouterTest, ReturnsPartsAndOtherMethods) {
  const Router router = MakeRouter();
  EXPECT_EQ(router.Find("GET", "/a/x/b/y").parts, (Parts{"x", "y"}));
  EXPECT_EQ(router.Find("GET", "/rest/x/y").parts, (Parts{"x/y"}));
  EXPECT_EQ(router.Find("HEAD", "/a").route->method, "GET");
  const Router::Match other = router.Find("PUT", "/a");
  EXPECT_EQ(other.route, nullptr);
  EXPECT_EQ(other.methods, (Parts{"GET", "POST", "DELETE"}));
  EXPECT_TRUE(router.Find("PUT", "/b").methods.empty());
  EXPECT_TRUE(router.Find("POST", "/a").methods.empty());
}

TEST(HostNameTest, FindsHostsAndLoopback) {
  EXPECT_EQ(HostWithoutPort("LocalHost:8080"), "localhost");
  EXPECT_EQ(HostWithoutPort("[::1]:80"), "::1");
  EXPECT_EQ(HostWithoutPort("::1"), "::1");
  EXPECT_EQ(HostWithoutPort("[::1]"), "::1");
  EXPECT_EQ(HostWithoutPort("localhost:"), "localhost");  // RFC 3986: a port may be empty
  EXPECT_EQ(HostWithoutPort("[::1]:"), "::1");
  EXPECT_EQ(HostWithoutPort("[FE80::A]:1"), "fe80::a");
  for (const char* host :
       {"", "[::1]evil.example", "[::1", "::1]", "[::1]:80x", "[::1]80", "[::1]:80:80", "[]",
        "[localhost]", "[127.0.0.1]", "[::1%lo]", "127.0.0.1:80:80", "localhost:80x",
        "localhost:evil.example", "local[host", "localhost]", "[[::1]]", ":80", "a:b:c"}) {
    EXPECT_EQ(HostWithoutPort(host), "") << host;
  }
  for (const char* host :
       {"localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host :
       {"", "localhost.evil.com", "notlocalhost", "128.0.0.1", "0.0.0.0",
        "::", "127.0.0.1.evil.com", "::ffff:1.2.3.4", "0x7f000001", "127.1", "::1%lo", "[::1]"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
  EXPECT_EQ(HostOfOrigin("http://localhost:3000"), "localhost");
  EXPECT_EQ(HostOfOrigin("HTTPS://[::1]:3000"), "::1");
  for (const char* origin : {"null", "localhost", "file://localhost", "http://evil.com/@localhost",
                             "http://evil.com#localhost", "http://a@localhost", "http://",
                             "http://[::1]evil.example", "http://localhost:80evil.example"}) {
    EXPECT_EQ(HostOfOrigin(origin), "") << origin;
  }
}

TEST(HeaderTextTest, ComparesAndDivides) {
  EXPECT_TRUE(EqualsIgnoringCase("Ab-C", "aB-c"));
  EXPECT_FALSE(EqualsIgnoringCase("a", "ab"));
  EXPECT_TRUE(HasToken("gzip , Chunked", "chunked"));
  EXPECT_FALSE(HasToken("gzip, chunkedx", "chunked"));
  EXPECT_EQ(Trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(Trimmed(" \t"), "");
}

TEST(ErrorReplyTest, HasTheTypeOfItsStatus) {
  EXPECT_EQ(ErrorReply(404, "File Not Found").body,
            R"({"error":{"code":404,"message":"File Not Found","type":"not_found_error"}})");
  EXPECT_EQ(ErrorReply(400, "too long", "exceed_context_size_error").body,
            R"({"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}})");
  EXPECT_EQ(ErrorReply(404, "x").content_type, kJsonType);
  EXPECT_EQ(ErrorReply(404, "x").status, 404);
  const std::vector<std::pair<int, std::string>> types = {
      {400, "invalid_request_error"},
      {401, "authentication_error"},
      {403, "permission_error"},
      {404, "not_found_error"},
      {405, "method_not_allowed_error"},
      {408, "timeout_error"},
      {411, "invalid_request_error"},
      {413, "request_too_large_error"},
      {429, "rate_limit_error"},
      {431, "invalid_request_error"},
      {500, "server_error"},
      {501, "not_supported_error"},
      {503, "unavailable_error"},
      {505, "server_error"},
  };
  for (const auto& [status, type] : types) EXPECT_EQ(ErrorType(status), type) << status;
}

TEST(ErrorReplyTest, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(ErrorJson(400, "a\xff\"b\n", "t"),
            "{\"error\":{\"code\":400,\"message\":\"a\xEF\xBF\xBD\\\"b\\n\",\"type\":\"t\"}}");
}

TEST(ReplyHeadTest, TheHeadSaysHowTheBodyEnds) {
  GatewayReply reply;
  reply.body = "12345";
  ReplyHeadOptions form;
  form.idle_time = std::chrono::seconds(7);
  std::string head = WriteReplyHead(reply, form);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\nServer: kvd/")) << head;
  EXPECT_NE(head.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_NE(head.find("Keep-Alive: timeout=7\r\n"), std::string::npos);
  EXPECT_NE(head.find("Date: "), std::string::npos);
  EXPECT_TRUE(head.ends_with(" GMT\r\n\r\n") || head.ends_with("\r\n\r\n"));
  form.body_end = BodyEnd::kChunks;
  head = WriteReplyHead(reply, form);
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Content-Length"), std::string::npos);
  form.body_end = BodyEnd::kClose;
  form.keeps_connection = false;
  head = WriteReplyHead(reply, form);
  EXPECT_EQ(head.find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(head.find("Connection: close\r\n"), std::string::npos);
  reply.status = 204;
  form.body_end = BodyEnd::kLength;
  head = WriteReplyHead(reply, form);
  EXPECT_EQ(head.find("Content-"), std::string::npos);
}

TEST(ListenAddressTest, FindsLoopbackAndExposure) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"}) {
    const auto address = ResolveListenAddress(host, 80);
    ASSERT_TRUE(address) << address.error().message;
    EXPECT_TRUE(address->is_loopback()) << host;
    EXPECT_TRUE(CheckExposure(*address, false, false)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "8.8.8.8", "::ffff:8.8.8.8"}) {
    const auto address = ResolveListenAddress(host, 80);
    ASSERT_TRUE(address) << address.error().message;
    EXPECT_FALSE(address->is_loopback()) << host;
    EXPECT_TRUE(CheckExposure(*address, true, false));
    EXPECT_TRUE(CheckExposure(*address, false, true));
    const Status refused = CheckExposure(*address, false, false);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("--no-auth"), std::string::npos);
  }
  const auto unix_address = ResolveListenAddress("unix:/tmp/a", 0);
  ASSERT_TRUE(unix_address);
  EXPECT_TRUE(CheckExposure(*unix_address, false, false));
  for (const std::string& host : {std::string("unix:"), "unix:" + std::string(200, 'a'),
                                  std::string("no such host"), std::string()}) {
    const auto address = ResolveListenAddress(host, 80);
    ASSERT_FALSE(address) << host;
    EXPECT_EQ(address.error().code, Code::kInvalidArgument);
  }
}

TEST(ListenAddressTest, HasTheUrlOfAClient) {
  EXPECT_EQ(UrlOf(*ResolveListenAddress("127.0.0.1", 0), 8080, false), "http://127.0.0.1:8080");
  EXPECT_EQ(UrlOf(*ResolveListenAddress("::1", 0), 443, true), "https://[::1]:443");
  EXPECT_EQ(UrlOf(*ResolveListenAddress("unix:/tmp/a", 0), 0, false), "unix:/tmp/a");
}

}  // namespace
}  // namespace kvd::http
