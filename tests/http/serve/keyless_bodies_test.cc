// What a client without a key can make the server read and hold: bodies of public routes and of
// requests that are refused.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "tests/http/serve/raw_client.h"
#include "tests/http/serve/toy_server.h"

namespace kvd::http::test {
namespace {

using std::chrono::milliseconds;

constexpr const char* kKeyHeader = "Authorization: Bearer secret\r\n";
constexpr std::size_t kBodyBytesMax = 64u << 10;

ToyOptions KeyedOptions() {
  ToyOptions options;
  options.access.check_key = CheckKeyList({"secret"}, "team");
  return options;
}

std::string HeadOf(std::string_view request, std::string_view headers) {
  return Concat(request, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}
std::string HeadWithLength(std::string_view request, std::size_t body_bytes) {
  return HeadOf(request, Concat("Content-Length: ", body_bytes, "\r\n"));
}

// A request whose body is not used, and the status of its reply.
struct Keyless {
  const char* request;
  const char* headers;
  int status;
  int status_of_long_body;
};
const Keyless kKeyless[] = {
    {"POST /echo", "", 401, 401},           {"POST /no-such-path", kKeyHeader, 404, 404},
    {"DELETE /echo", kKeyHeader, 405, 405}, {"OPTIONS /echo", "", 200, 200},
    {"GET /health", "", 200, 413},          {"GET /health", kKeyHeader, 200, 413},
    {"POST /open", "", 200, 413},
};

// The bodies that sixteen senders keep back would use up what the server holds in all.
TEST(KeylessBodiesTest, SlowSendersWithoutAKeyDoNotBlockAKeyHolder) {
  for (const char* request : {"GET /health", "POST /echo", "GET /no-such-path", "OPTIONS /echo"}) {
    ToyOptions options = KeyedOptions();
    options.limits.body_bytes_in_all_max = 16'000;
    ToyServer server(options);
    std::vector<std::unique_ptr<RawClient>> senders;
    for (int i = 0; i < 16; ++i) {
      senders.push_back(std::make_unique<RawClient>(server.port()));
      ASSERT_TRUE(senders.back()->Send(HeadWithLength(request, 2000)));
      ASSERT_TRUE(senders.back()->Send(std::string(1000, 'a')));
    }
    EXPECT_EQ(server.held_body_bytes(), 0u);
    for (int i = 0; i < 16; ++i) {
      RawClient client(server.port());
      ASSERT_TRUE(client.SendRequest("POST", "/echo", kKeyHeader, std::string(300, 'b')));
      EXPECT_EQ(client.ReadReply().status, 200) << request;
    }
  }
}

TEST(KeylessBodiesTest, AnswersALongBodyAtOnceAndCloses) {
  ToyServer server(KeyedOptions());
  for (const Keyless& each : kKeyless) {
    RawClient client(server.port());
    const std::string length = Concat("Content-Length: ", kBodyBytesMax + 1, "\r\n");
    ASSERT_TRUE(client.Send(HeadOf(each.request, Concat(each.headers, length))));
    const ReceivedReply reply = client.ReadReply();
    EXPECT_EQ(reply.status, each.status_of_long_body) << each.request;
    EXPECT_EQ(reply.header("connection"), "close") << each.request;
    EXPECT_TRUE(client.ReadsEnd()) << each.request;
  }
}

TEST(KeylessBodiesTest, DeliversTheReplyToAClientThatSendsTheWholeBodyFirst) {
  ToyOptions options = KeyedOptions();
  options.limits.linger_time = milliseconds(60'000);
  ToyServer server(options);
  for (const Keyless& each : kKeyless) {
    RawClient client(server.port());
    const std::string length = Concat("Content-Length: ", 8u << 20, "\r\n");
    ASSERT_TRUE(client.Send(HeadOf(each.request, Concat(each.headers, length))));
    ASSERT_TRUE(client.Send(std::string(8u << 20, 'a')));
    EXPECT_EQ(client.ReadReply().status, each.status_of_long_body) << each.request;
  }
}

TEST(KeylessBodiesTest, DropsAShortBodyAndKeepsTheConnection) {
  ToyServer server(KeyedOptions());
  for (const Keyless& each : kKeyless) {
    for (const std::size_t body_bytes : {std::size_t{1}, kBodyBytesMax}) {
      RawClient client(server.port());
      const std::string length = Concat("Content-Length: ", body_bytes, "\r\n");
      // The request behind the body is in the same segment as its end.
      ASSERT_TRUE(
          client.Send(Concat(HeadOf(each.request, Concat(each.headers, length)),
                             std::string(body_bytes, 'a'), HeadOf("GET /part/x", kKeyHeader))));
      const ReceivedReply reply = client.ReadReply();
      EXPECT_EQ(reply.status, each.status) << each.request;
      EXPECT_FALSE(reply.has("connection")) << each.request;
      EXPECT_EQ(client.ReadReply().body, "x|") << each.request;
    }
  }
}

TEST(KeylessBodiesTest, GivesHandlersOfPublicRoutesNoBody) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/open", "", "body"));
  EXPECT_EQ(client.ReadReply().body, "");
}

TEST(KeylessBodiesTest, BoundsBodiesInChunks) {
  ToyServer server(KeyedOptions());
  const std::string chunk = Concat("4000\r\n", std::string(16u << 10, 'a'), "\r\n");
  const std::string longest = chunk + chunk + chunk + chunk;
  // A byte of body in each chunk, and 1,000 bytes of lines.
  std::string lines;
  for (int i = 0; i < 70; ++i) lines += Concat("1;", std::string(1000, 'a'), "\r\nb\r\n");
  for (const Keyless& each : kKeyless) {
    const std::string head =
        HeadOf(each.request, Concat(each.headers, "Transfer-Encoding: chunked\r\n"));
    RawClient fitting(server.port());
    ASSERT_TRUE(fitting.Send(
        Concat(head, longest, "0\r\nA: trailer\r\n\r\n", HeadOf("GET /part/x", kKeyHeader))));
    EXPECT_EQ(fitting.ReadReply().status, each.status) << each.request;
    EXPECT_EQ(fitting.ReadReply().body, "x|") << each.request;
    for (const std::string& body :
         {longest + "1\r\na\r\n0\r\n\r\n", longest + "1000\r\na", lines}) {
      RawClient client(server.port());
      ASSERT_TRUE(client.Send(Concat(head, body, HeadOf("GET /part/x", kKeyHeader))));
      const ReceivedReply reply = client.ReadReply();
      EXPECT_EQ(reply.status, each.status_of_long_body) << each.request;
      EXPECT_EQ(reply.header("connection"), "close") << each.request;
      EXPECT_EQ(client.ReadToEnd(), "") << each.request;
    }
  }
}

// Bytes behind an early reply are the body of the request before and never a request.
TEST(KeylessBodiesTest, NeverReadsARequestFromTheBodyOfARefusedOne) {
  ToyServer server(KeyedOptions());
  for (const Keyless& each : kKeyless) {
    RawClient client(server.port());
    const std::string length = Concat("Content-Length: ", 1u << 20, "\r\n");
    std::string body;
    while (body.size() < (128u << 10)) body += HeadOf("GET /part/x", kKeyHeader);
    ASSERT_TRUE(client.Send(HeadOf(each.request, Concat(each.headers, length)) + body));
    EXPECT_EQ(client.ReadReply().status, each.status_of_long_body) << each.request;
    EXPECT_EQ(client.ReadToEnd(), "") << each.request;
  }
}

TEST(KeylessBodiesTest, SendsTheRepliesAheadFirst) {
  ToyServer server(KeyedOptions());
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait", kKeyHeader));
  ASSERT_TRUE(client.Send(HeadWithLength("POST /echo", 8u << 20)));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  ASSERT_TRUE(client.Send(std::string(4u << 20, 'a')));
  server.Release();
  EXPECT_EQ(client.ReadReply().body, "waited");
  EXPECT_EQ(client.ReadReply().status, 401);
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST(KeylessBodiesTest, SendsNoContinueBeforeARefusal) {
  ToyServer server(KeyedOptions());
  const std::string expect = "Expect: 100-continue\r\n";
  for (const std::size_t body_bytes : {std::size_t{5}, kBodyBytesMax + 1}) {
    const std::string length = Concat("Content-Length: ", body_bytes, "\r\n");
    RawClient refused(server.port());
    ASSERT_TRUE(refused.Send(HeadOf("POST /echo", expect + length)));
    EXPECT_EQ(refused.ReadReply().status, 401);
    EXPECT_EQ(refused.ReadToEnd(), "");
  }
  RawClient too_long(server.port());
  ASSERT_TRUE(too_long.Send(
      HeadOf("GET /health", Concat(expect, "Content-Length: ", kBodyBytesMax + 1, "\r\n"))));
  EXPECT_EQ(too_long.ReadReply().status, 413);
  EXPECT_EQ(too_long.ReadToEnd(), "");
  RawClient served(server.port());
  ASSERT_TRUE(served.Send(HeadOf("GET /health", expect + "Content-Length: 5\r\n")));
  EXPECT_EQ(served.ReadReply().status, 100);
  ASSERT_TRUE(served.Send("hello"));
  EXPECT_EQ(served.ReadReply().status, 200);
}

TEST(KeylessBodiesTest, AnswersHeadWithoutABody) {
  ToyServer server(KeyedOptions());
  for (const char* request : {"HEAD /health", "HEAD /echo"}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(HeadWithLength(request, kBodyBytesMax + 1)));
    const ReceivedReply reply = client.ReadReply(false);
    EXPECT_EQ(reply.status, request == std::string_view("HEAD /health") ? 413 : 401);
    EXPECT_EQ(client.ReadToEnd(), "");
  }
}

TEST(KeylessBodiesTest, EndsAClientThatNeitherStopsSendingNorCloses) {
  ToyOptions options = KeyedOptions();
  options.limits.linger_time = milliseconds(50);
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(HeadWithLength("POST /echo", 64u << 20)));
  const std::string piece(16u << 10, 'a');
  ASSERT_TRUE(Eventually([&] { return !client.Send(piece); }));
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

// A connection that lingers keeps its place, so the limits of connections hold for it.
TEST(KeylessBodiesTest, CountsConnectionsThatLinger) {
  ToyOptions options = KeyedOptions();
  options.limits.linger_time = milliseconds(60'000);
  options.limits.connections_per_peer_max = 20;
  ToyServer server(options);
  std::vector<std::unique_ptr<RawClient>> lingering;
  for (int i = 0; i < 20; ++i) {
    lingering.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(lingering.back()->Send(HeadWithLength("POST /echo", 8u << 20)));
    EXPECT_EQ(lingering.back()->ReadReply().status, 401);
  }
  EXPECT_EQ(server.connection_count(), 20u);
  RawClient further(server.port());
  (void)further.SendRequest("GET", "/health");
  EXPECT_EQ(further.ReadReply().status, 503);
  lingering.clear();
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST(KeylessBodiesTest, EndsASlowBodyOfARefusedRequest) {
  ToyOptions options = KeyedOptions();
  options.limits.body_window = milliseconds(50);
  ToyServer server(options);
  for (const Keyless& each : kKeyless) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(HeadOf(each.request, Concat(each.headers, "Content-Length: 5\r\n"))));
    ASSERT_TRUE(client.Send("abc"));
    EXPECT_EQ(client.ReadReply().status, 408) << each.request;
    EXPECT_TRUE(client.ReadsEnd());
  }
}

TEST(KeylessBodiesTest, AnswersManyPipelinedRequestsWithoutAKey) {
  ToyServer server(KeyedOptions());
  RawClient client(server.port());
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += HeadWithLength("POST /echo", 3) + "abc" + HeadOf("GET /health", "");
    text += HeadOf("GET /part/x", kKeyHeader);
  }
  ASSERT_TRUE(client.Send(text));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.ReadReply().status, 401);
    EXPECT_EQ(client.ReadReply().status, 200);
    EXPECT_EQ(client.ReadReply().body, "x|");
  }
}

}  // namespace
}  // namespace kvd::http::test
