// Every limit of ServeLimits, through a real socket. Limits of time are some 50 ms; no test asserts
// a maximum time.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "tests/http/serve/raw_client.h"
#include "tests/http/serve/toy_server.h"

namespace kvd::http::test {
namespace {

using std::chrono::milliseconds;

void ExpectRefusal(RawClient& client, int status, std::string_view type) {
  const ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, status);
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_NE(reply.body.find(Concat("\"code\":", status)), std::string::npos) << reply.body;
  EXPECT_NE(reply.body.find(type), std::string::npos) << reply.body;
  EXPECT_TRUE(client.ReadsEnd());
}

TEST(ServeLimitsTest, RefusesMalformedRequestsAndCloses) {
  ToyServer server;
  struct Case {
    const char* text;
    int status;
    const char* type;
  };
  const std::vector<Case> cases = {
      {"nonsense\r\n\r\n", 400, "invalid_request_error"},
      {"GET / HTTP/1.1\r\n\r\n", 400, "invalid_request_error"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "invalid_request_error"},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://a\r\n\r\n",
       400, "invalid_request_error"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\n\r\n", 411, "invalid_request_error"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n", 413,
       "request_too_large_error"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: zip\r\n\r\n", 501, "not_supported_error"},
      {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "server_error"},
  };
  for (const Case& each : cases) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(each.text));
    ExpectRefusal(client, each.status, each.type);
  }
}

TEST(ServeLimitsTest, ARefusalFollowsTheRepliesAhead) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait"));
  ASSERT_TRUE(client.Send("nonsense\r\n\r\n"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  server.Release();
  EXPECT_EQ(client.ReadReply().body, "waited");
  ExpectRefusal(client, 400, "invalid_request_error");
}

TEST(ServeLimitsTest, BoundsTargetHeadersAndBody) {
  ToyOptions options;
  options.limits.target_bytes_max = 100;
  options.limits.header_bytes_max = 1000;
  options.limits.header_count_max = 5;
  options.limits.body_bytes_max = 1000;
  ToyServer server(options);
  RawClient target(server.port());
  ASSERT_TRUE(target.SendRequest("GET", "/" + std::string(100, 'a')));
  ExpectRefusal(target, 414, "invalid_request_error");
  RawClient headers(server.port());
  ASSERT_TRUE(headers.Send("GET / HTTP/1.1\r\nA: " + std::string(1000, 'a')));
  ExpectRefusal(headers, 431, "invalid_request_error");
  RawClient count(server.port());
  ASSERT_TRUE(count.SendRequest("GET", "/", "A: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n"));
  ExpectRefusal(count, 431, "invalid_request_error");
  RawClient body(server.port());
  ASSERT_TRUE(body.SendRequest("POST", "/echo", "", std::string(1001, 'a')));
  ExpectRefusal(body, 413, "request_too_large_error");
  RawClient chunks(server.port());
  ASSERT_TRUE(chunks.SendRequest("POST", "/echo", "Transfer-Encoding: chunked\r\n"));
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(chunks.Send("64\r\n" + std::string(100, 'a') + "\r\n"));
  ExpectRefusal(chunks, 413, "request_too_large_error");
}

// The reply arrives although the client has sent much of a body that nothing reads.
TEST(ServeLimitsTest, DeliversTheRefusalOfALargeBody) {
  ToyOptions options;
  options.limits.body_bytes_max = 1000;
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Content-Length: 8388608\r\n"));
  ASSERT_TRUE(client.Send(std::string(8u << 20, 'a')));
  client.CloseSendingSide();
  ExpectRefusal(client, 413, "request_too_large_error");
}

TEST(ServeLimitsTest, BoundsTheBodiesOfAllConnections) {
  ToyOptions options;
  options.limits.body_bytes_in_all_max = 1000;
  ToyServer server(options);
  RawClient first(server.port());
  ASSERT_TRUE(first.SendRequest("POST", "/echo", "Content-Length: 800\r\n"));
  ASSERT_TRUE(first.Send(std::string(799, 'a')));
  RawClient waiting(server.port());
  ASSERT_TRUE(waiting.SendRequest("GET", "/wait"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  // The first body has been read when a later request of another connection is refused.
  int status = 200;
  ASSERT_TRUE(Eventually([&] {
    RawClient second(server.port());
    (void)second.SendRequest("POST", "/echo", "", std::string(300, 'b'));
    status = second.ReadReply().status;
    return status != 200;
  }));
  EXPECT_EQ(status, 503);
  ASSERT_TRUE(first.Send("a"));
  EXPECT_EQ(first.ReadReply().body, std::string(800, 'a'));
  RawClient third(server.port());
  ASSERT_TRUE(third.SendRequest("POST", "/echo", "", std::string(300, 'b')));
  EXPECT_EQ(third.ReadReply().status, 200);
  server.Release();
}

TEST(ServeLimitsTest, DoesNotWaitForSlowHeaders) {
  ToyOptions options;
  options.limits.linger_time = milliseconds(50);
  options.limits.header_time = milliseconds(50);
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\nHost:"));
  ExpectRefusal(client, 408, "timeout_error");
  // Bytes that still arrive do not move the limit.
  RawClient dripping(server.port());
  ASSERT_TRUE(dripping.Send("GET / HTTP/1.1\r\n"));
  ASSERT_TRUE(Eventually([&] { return !dripping.Send("A: b\r\n"); }));
}

TEST(ServeLimitsTest, DoesNotWaitForSlowBodies) {
  ToyOptions options;
  options.limits.body_window = milliseconds(50);
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Content-Length: 5\r\n"));
  ASSERT_TRUE(client.Send("abc"));
  ExpectRefusal(client, 408, "timeout_error");
}

// Sends `piece` every few milliseconds until the server closes the connection, and expects 408.
void ExpectTimeoutOfTrickle(ToyServer& server, std::string_view headers, std::string_view piece) {
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/echo", headers));
  ASSERT_TRUE(Eventually([&] { return !client.Send(piece); }));
  EXPECT_EQ(client.ReadReply().status, 408) << piece;
}

TEST(ServeLimitsTest, EndsABodyThatArrivesBelowTheMinimumRate) {
  ToyOptions options;
  options.limits.body_window = milliseconds(50);
  options.limits.body_window_bytes_min = 1000;
  options.limits.linger_time = milliseconds(50);
  ToyServer server(options);
  ExpectTimeoutOfTrickle(server, "Content-Length: 60000000\r\n", "a");
  ExpectTimeoutOfTrickle(server, "Transfer-Encoding: chunked\r\n", "1\r\na\r\n");
  EXPECT_EQ(server.held_body_bytes(), 0u);
}

// The extension of a chunk and the trailers are no progress, however many bytes they have.
TEST(ServeLimitsTest, CountsOnlyBytesOfTheBodyAsProgress) {
  ToyOptions options;
  options.limits.body_window = milliseconds(50);
  options.limits.body_window_bytes_min = 1;
  options.limits.linger_time = milliseconds(50);
  options.limits.header_bytes_max = 1u << 30;
  ToyServer server(options);
  for (const char* start : {"1;", "3\r\nabc\r\n5", "0\r\nA: "}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.SendRequest("POST", "/echo", "Transfer-Encoding: chunked\r\n"));
    ASSERT_TRUE(client.Send(start));
    ASSERT_TRUE(Eventually([&] { return !client.Send(start[0] == '3' ? ";aaaa" : "aaaaa"); }));
    EXPECT_EQ(client.ReadReply().status, 408) << start;
  }
}

TEST(ServeLimitsTest, ReadsABodyThatKeepsTheMinimumRate) {
  ToyOptions options;
  options.limits.body_window = milliseconds(1000);
  options.limits.body_window_bytes_min = 1;
  ToyServer server(options);
  for (const bool in_chunks : {false, true}) {
    RawClient client(server.port());
    const char* framing = in_chunks ? "Transfer-Encoding: chunked\r\n" : "Content-Length: 13\r\n";
    ASSERT_TRUE(client.SendRequest("POST", "/echo", framing));
    for (int i = 0; i < 12; ++i) {
      std::this_thread::sleep_for(milliseconds(200));
      ASSERT_TRUE(client.Send(in_chunks ? "1\r\na\r\n" : "a"));
    }
    ASSERT_TRUE(client.Send(in_chunks ? "1\r\na\r\n0\r\n\r\n" : "a"));
    EXPECT_EQ(client.ReadReply().body, std::string(13, 'a'));
  }
}

TEST(ServeLimitsTest, BeginsTheWindowOfABodyAfterContinue) {
  ToyOptions options;
  options.limits.body_window = milliseconds(1000);
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait"));
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  std::this_thread::sleep_for(milliseconds(1200));
  server.Release();
  EXPECT_EQ(client.ReadReply().body, "waited");
  EXPECT_EQ(client.ReadReply().status, 100);
  ASSERT_TRUE(client.Send("hello"));
  EXPECT_EQ(client.ReadReply().body, "hello");
}

TEST(ServeLimitsTest, AShorterTimeoutKeepsTheRateOfABody) {
  const ServeLimits normal;
  ServeLimits limits;
  limits.ShortenTo(std::chrono::hours(1));
  EXPECT_EQ(limits.body_window, normal.body_window);
  EXPECT_EQ(limits.body_window_bytes_min, normal.body_window_bytes_min);
  EXPECT_EQ(limits.idle_time, normal.idle_time);
  limits.ShortenTo(std::chrono::seconds(20));
  EXPECT_EQ(limits.body_window, normal.body_window);
  EXPECT_EQ(limits.write_time, std::chrono::seconds(20));
  EXPECT_EQ(limits.idle_time, std::chrono::seconds(20));
  limits.ShortenTo(std::chrono::seconds(1));
  EXPECT_EQ(limits.body_window, std::chrono::seconds(1));
  EXPECT_EQ(limits.body_window_bytes_min, normal.body_window_bytes_min / 10);
  limits.body_window_bytes_min = 1;
  limits.ShortenTo(milliseconds(1));
  EXPECT_EQ(limits.body_window_bytes_min, 1u);
}

TEST(ServeLimitsTest, ClosesIdleConnections) {
  ToyOptions options;
  options.limits.idle_time = milliseconds(50);
  ToyServer server(options);
  RawClient silent(server.port());
  EXPECT_EQ(silent.ReadToEnd(), "");
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST(ServeLimitsTest, DoesNotCountTheTimeOfAHandlerAsIdle) {
  ToyOptions options;
  options.limits.idle_time = milliseconds(50);
  options.limits.header_time = milliseconds(50);
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  std::this_thread::sleep_for(milliseconds(200));
  server.Release();
  EXPECT_EQ(client.ReadReply().body, "waited");
}

TEST(ServeLimitsTest, BreaksConnectionsOfSlowReaders) {
  ToyOptions options;
  options.limits.write_time = milliseconds(50);
  ToyServer server(options);
  RawClient client(server.port(), 4096);
  ASSERT_TRUE(client.SendRequest("GET", "/flood"));
  EXPECT_TRUE(Eventually([&] { return server.ended_count == 1; }));
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST(ServeLimitsTest, ClosesAfterLingering) {
  ToyOptions options;
  options.limits.linger_time = milliseconds(50);
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/health", "Connection: close\r\n"));
  EXPECT_EQ(client.ReadReply().status, 200);
  // The client does not close its side.
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST(ServeLimitsTest, BoundsConnectionsInAllAndPerPeer) {
  for (const bool per_peer : {false, true}) {
    ToyOptions options;
    (per_peer ? options.limits.connections_per_peer_max : options.limits.connection_count_max) = 2;
    ToyServer server(options);
    RawClient first(server.port());
    RawClient second(server.port());
    ASSERT_TRUE(Eventually([&] { return server.connection_count() == 2; }));
    RawClient third(server.port());
    (void)third.SendRequest("GET", "/health");
    ExpectRefusal(third, 503, "unavailable_error");
    ASSERT_TRUE(second.SendRequest("GET", "/health"));
    EXPECT_EQ(second.ReadReply().status, 200);
    first.Close();
    ASSERT_TRUE(Eventually([&] { return server.connection_count() == 1; }));
    RawClient fourth(server.port());
    ASSERT_TRUE(fourth.SendRequest("GET", "/health"));
    EXPECT_EQ(fourth.ReadReply().status, 200);
  }
}

TEST(ServeLimitsTest, RefusesWithoutAReplyWhenManyAreRefused) {
  ToyOptions options;
  options.limits.connection_count_max = 0;
  options.limits.refused_count_max = 1;
  ToyServer server(options);
  RawClient first(server.port());
  RawClient second(server.port());
  EXPECT_EQ(second.ReadToEnd(), "");
  EXPECT_EQ(first.ReadReply().status, 503);
}

}  // namespace
}  // namespace kvd::http::test
