// Requests and replies on one connection, through a real socket.
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "tests/http/serve/raw_client.h"
#include "tests/http/serve/toy_server.h"

namespace kvd::http::test {
namespace {

TEST(ConnectionTest, KeepsAConnectionForSeveralRequests) {
  ToyServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.SendRequest("POST", "/echo", "", "hello"));
    const ReceivedReply reply = client.ReadReply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "hello");
    EXPECT_EQ(reply.header("content-type"), "text/plain");
    EXPECT_TRUE(reply.header("server").starts_with("kvd/"));
    EXPECT_EQ(reply.header("keep-alive"), "timeout=75");
    EXPECT_FALSE(reply.has("connection"));
  }
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Connection: close\r\n", "last"));
  const ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.body, "last");
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST(ConnectionTest, TellsTheHandlerWhatWasAsked) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/ec%68o?a=%C3%A4&b", "X-Api-Key: k\r\n"));
  EXPECT_EQ(client.ReadReply().body, "GET\n/echo\na=\xC3\xA4;b=;\nk\n\nlocalhost\n");
  ASSERT_TRUE(client.SendRequest("GET", "/part/x%20y"));
  EXPECT_EQ(client.ReadReply().body, "x y|");
  ASSERT_TRUE(client.SendRequest("GET", "/rest/org%2Fname/x"));
  EXPECT_EQ(client.ReadReply().body, "org/name/x|");
}

TEST(ConnectionTest, AnswersPipelinedRequestsInOrder) {
  ToyServer server;
  std::string text;
  for (const char* body : {"one", "two", "three"}) {
    text += Concat("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                   std::string_view(body).size(), "\r\n\r\n", body);
  }
  // As one segment, then byte by byte.
  for (const bool byte_by_byte : {false, true}) {
    RawClient client(server.port());
    if (byte_by_byte) {
      for (const char byte : text) ASSERT_TRUE(client.Send({&byte, 1}));
    } else {
      ASSERT_TRUE(client.Send(text));
    }
    for (const char* body : {"one", "two", "three"}) EXPECT_EQ(client.ReadReply().body, body);
  }
}

TEST(ConnectionTest, AnswersMorePipelinedRequestsThanMayWait) {
  ToyOptions options;
  options.limits.waiting_requests_max = 2;
  ToyServer server(options);
  RawClient client(server.port());
  std::string text = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 40; ++i) {
    text += Concat("GET /part/", i, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  ASSERT_TRUE(client.Send(text));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  server.Release();
  EXPECT_EQ(client.ReadReply().body, "waited");
  for (int i = 0; i < 40; ++i) EXPECT_EQ(client.ReadReply().body, Concat(i, "|"));
}

TEST(ConnectionTest, ReadsBodiesInChunks) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Transfer-Encoding: chunked\r\n"));
  ASSERT_TRUE(client.Send("3\r\nabc\r\n"));
  ASSERT_TRUE(client.Send("2\r\nde\r\n0\r\n\r\n"));
  EXPECT_EQ(client.ReadReply().body, "abcde");
  const std::string body(3u << 20, 'x');
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "", body));
  EXPECT_EQ(client.ReadReply().body, body);
}

TEST(ConnectionTest, StreamsInChunks) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/stream"));
  const ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("transfer-encoding"), "chunked");
  EXPECT_EQ(reply.header("content-type"), "text/event-stream");
  EXPECT_FALSE(reply.has("content-length"));
  EXPECT_EQ(reply.body, "onetwothree");
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().body, R"({"status":"ok"})");
}

TEST(ConnectionTest, WritesNoChunksForHttp10) {
  ToyServer server;
  RawClient streaming(server.port());
  ASSERT_TRUE(streaming.Send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const ReceivedReply stream = streaming.ReadReply();
  EXPECT_FALSE(stream.has("transfer-encoding"));
  EXPECT_EQ(stream.header("connection"), "close");
  EXPECT_EQ(stream.body, "onetwothree");

  RawClient keeping(server.port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(keeping.Send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    const ReceivedReply reply = keeping.ReadReply();
    EXPECT_EQ(reply.header("connection"), "keep-alive");
    EXPECT_EQ(reply.body, R"({"status":"ok"})");
  }
  RawClient once(server.port());
  ASSERT_TRUE(once.Send("GET /health HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(once.ReadReply().header("connection"), "close");
  EXPECT_TRUE(once.ReadsEnd());
}

TEST(ConnectionTest, AnswersHeadWithTheHeadersOfGet) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("HEAD", "/health"));
  const ReceivedReply reply = client.ReadReply(false);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-length"), "15");
  ASSERT_TRUE(client.SendRequest("HEAD", "/stream"));
  EXPECT_EQ(client.ReadReply(false).header("transfer-encoding"), "chunked");
  ASSERT_TRUE(client.SendRequest("HEAD", "/no-such-path"));
  EXPECT_EQ(client.ReadReply(false).status, 404);
  ASSERT_TRUE(client.SendRequest("GET", "/nothing"));
  EXPECT_EQ(client.ReadReply().status, 204);
  // No byte of a body has come in between.
  ASSERT_TRUE(client.SendRequest("GET", "/part/x"));
  EXPECT_EQ(client.ReadReply().body, "x|");
}

TEST(ConnectionTest, AnswersOptions) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("OPTIONS", "/any/path", "Origin: http://localhost:3000\r\n"));
  ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "");
  EXPECT_EQ(reply.header("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(reply.header("access-control-allow-credentials"), "true");
  EXPECT_EQ(reply.header("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
  EXPECT_EQ(reply.header("access-control-allow-headers"), "*");
  ASSERT_TRUE(client.Send("OPTIONS * HTTP/1.1\r\nHost: evil.com\r\n\r\n"));
  EXPECT_EQ(client.ReadReply().status, 200);
}

TEST(ConnectionTest, HasCorsHeadersOnEveryReply) {
  ToyServer server;
  RawClient client(server.port());
  for (const char* path : {"/health", "/stream", "/throw", "/no-such-path"}) {
    ASSERT_TRUE(client.SendRequest("GET", path, "Origin: http://localhost\r\n"));
    const ReceivedReply reply = client.ReadReply();
    EXPECT_EQ(reply.header("access-control-allow-origin"), "http://localhost") << path;
    EXPECT_EQ(reply.header("vary"), "Origin");
  }
  ASSERT_TRUE(client.SendRequest("GET", "/health", "Origin: http://evil.com\r\n"));
  const ReceivedReply refused = client.ReadReply();
  EXPECT_EQ(refused.status, 403);
  EXPECT_FALSE(refused.has("access-control-allow-origin"));
}

TEST(ConnectionTest, RefusesUnknownPathsAndMethods) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/no-such-path"));
  ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.body,
            R"({"error":{"code":404,"message":"File Not Found","type":"not_found_error"}})");
  ASSERT_TRUE(client.SendRequest("DELETE", "/echo"));
  reply = client.ReadReply();
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("allow"), "POST, GET, HEAD, OPTIONS");
  ASSERT_TRUE(client.SendRequest("BREW", "/echo", "", "body that is dropped"));
  EXPECT_EQ(client.ReadReply().status, 405);
  ASSERT_TRUE(client.SendRequest("GET", "/part/x"));
  EXPECT_EQ(client.ReadReply().body, "x|");
}

TEST(ConnectionTest, ChecksKeysBeforeTheBody) {
  ToyOptions options;
  options.access.check_key = CheckKeyList({"secret"}, "team");
  ToyServer server(options);
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "", "hello"));
  ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
  ASSERT_TRUE(client.SendRequest("POST", "/no-such-path", "", "hello"));
  EXPECT_EQ(client.ReadReply().status, 401);
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
  ASSERT_TRUE(client.SendRequest("OPTIONS", "/echo"));
  EXPECT_EQ(client.ReadReply().status, 200);
  ASSERT_TRUE(client.SendRequest("GET", "/echo", "Authorization: Bearer secret\r\n"));
  EXPECT_EQ(client.ReadReply().body, "GET\n/echo\n\nsecret\nteam\nlocalhost\n");
}

TEST(ConnectionTest, SendsContinueToAClientThatWaitsForIt) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  EXPECT_EQ(client.ReadReply().status, 100);
  ASSERT_TRUE(client.Send("hello"));
  EXPECT_EQ(client.ReadReply().body, "hello");
  // A client that does not wait gets no 100.
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Expect: 100-continue\r\n", "hello"));
  EXPECT_EQ(client.ReadReply().body, "hello");
}

TEST(ConnectionTest, SendsContinueAfterTheRepliesAhead) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait"));
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  server.Release();
  EXPECT_EQ(client.ReadReply().body, "waited");
  EXPECT_EQ(client.ReadReply().status, 100);
  ASSERT_TRUE(client.Send("hello"));
  EXPECT_EQ(client.ReadReply().body, "hello");
}

TEST(ConnectionTest, RefusesInsteadOfContinuing) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(
      client.SendRequest("POST", "/no-such-path", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  const ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST(ConnectionTest, TurnsExceptionsOfHandlersIntoReplies) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/throw"));
  ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.status, 500);
  EXPECT_NE(reply.body.find("server_error"), std::string::npos);
  ASSERT_TRUE(client.SendRequest("GET", "/silent"));
  EXPECT_EQ(client.ReadReply().status, 500);
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
}

TEST(ConnectionTest, BreaksStreamsWithoutAnEnd) {
  ToyServer server;
  for (const char* path : {"/half", "/throw-late"}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.SendRequest("GET", path));
    const ReceivedReply reply = client.ReadReply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_FALSE(reply.is_whole);
    EXPECT_TRUE(client.ReadsEnd());
  }
}

TEST(ConnectionTest, WritesNoLineThatAHandlerHidesInAHeader) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/split"));
  const ReceivedReply reply = client.ReadReply();
  EXPECT_EQ(reply.header("x-split"), "a  X-Injected: b");
  EXPECT_FALSE(reply.has("x-injected"));
}

TEST(ConnectionTest, SkipsEmptyLinesBetweenRequests) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("\r\n\r\n"));
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "", "a"));
  EXPECT_EQ(client.ReadReply().body, "a");
  ASSERT_TRUE(client.Send("\r"));
  ASSERT_TRUE(client.Send("\n"));
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "", "b"));
  EXPECT_EQ(client.ReadReply().body, "b");
}

TEST(ConnectionTest, SendsLargeReplies) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/big"));
  const ReceivedReply reply = client.ReadReply();
  EXPECT_TRUE(reply.is_whole);
  EXPECT_EQ(reply.body.size(), 4u << 20);
}

}  // namespace
}  // namespace kvd::http::test
