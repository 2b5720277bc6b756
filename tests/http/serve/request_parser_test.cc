#include "http/serve/request_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/support/test_scale.h"

namespace kvd::http {
namespace {

struct Outcome {
  int error_status = 0;  // 0: none
  std::string message;
  bool is_done = false;
  std::size_t taken_bytes = 0;
  Request request;
  bool keeps_connection = false;
};

// Feeds `bytes` in pieces of at most `piece_bytes`.
Outcome Parse(std::string_view bytes, const ServeLimits& limits = {},
              std::size_t piece_bytes = std::string::npos) {
  RequestParser parser(limits);
  Outcome outcome;
  std::size_t arrived_bytes = 0;
  while (!parser.is_done()) {
    const auto taken =
        parser.Put(bytes.substr(outcome.taken_bytes, arrived_bytes - outcome.taken_bytes));
    if (!taken) {
      outcome.error_status = taken.error().status;
      outcome.message = taken.error().message;
      return outcome;
    }
    outcome.taken_bytes += *taken;
    if (*taken > 0) continue;
    if (arrived_bytes == bytes.size()) break;
    arrived_bytes += std::min(piece_bytes, bytes.size() - arrived_bytes);
  }
  outcome.is_done = parser.is_done();
  if (parser.is_header_done()) outcome.keeps_connection = parser.keeps_connection();
  outcome.request = parser.request();
  return outcome;
}

TEST(RequestParserTest, ReadsARequestInPiecesOfAnyLength) {
  const std::string text =
      "POST /v1/a%20b?x=1&y=a+b%2B&z HTTP/1.1\r\nHost: localhost:80\r\nA: b\r\n"
      "Content-Length: 5\r\n\r\nhelloNEXT";
  for (const std::size_t piece_bytes : {1uz, 2uz, 3uz, 7uz, 20uz, 1000uz}) {
    const Outcome outcome = Parse(text, {}, piece_bytes);
    ASSERT_TRUE(outcome.is_done) << outcome.message;
    EXPECT_EQ(outcome.taken_bytes, text.size() - 4);
    EXPECT_EQ(outcome.request.method, "POST");
    EXPECT_EQ(outcome.request.path, "/v1/a b");
    ASSERT_EQ(outcome.request.query.size(), 3u);
    EXPECT_EQ(outcome.request.query_value("y"), "a b+");
    EXPECT_EQ(outcome.request.query_value("z"), "");
    EXPECT_EQ(outcome.request.query_value("w"), std::nullopt);
    EXPECT_EQ(outcome.request.header("a"), "b");
    EXPECT_EQ(outcome.request.body, "hello");
    EXPECT_TRUE(outcome.keeps_connection);
  }
}

TEST(RequestParserTest, ReadsChunksWithExtensionsAndDropsTrailers) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=\"va;lue\"\r\nabc\r\nA\r\n0123456789\r\n0\r\nAuthorization: Bearer k\r\n\r\n";
  for (const std::size_t piece_bytes : {1uz, 5uz, 1000uz}) {
    const Outcome outcome = Parse(text, {}, piece_bytes);
    ASSERT_TRUE(outcome.is_done) << outcome.message;
    EXPECT_EQ(outcome.request.body, "abc0123456789");
    EXPECT_EQ(outcome.request.header("Authorization"), "");
  }
}

TEST(RequestParserTest, TakesTheHostOfAnAbsoluteTarget) {
  const Outcome outcome = Parse("GET http://other:81?a=b HTTP/1.1\r\nHost: first\r\n\r\n");
  ASSERT_TRUE(outcome.is_done) << outcome.message;
  EXPECT_EQ(outcome.request.path, "/");
  EXPECT_EQ(outcome.request.header("Host"), "other:81");
  EXPECT_EQ(outcome.request.query_value("a"), "b");
}

TEST(RequestParserTest, KnowsWhetherTheConnectionStays) {
  EXPECT_TRUE(Parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n").keeps_connection);
  EXPECT_FALSE(Parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n").keeps_connection);
  EXPECT_FALSE(Parse("GET / HTTP/1.0\r\n\r\n").keeps_connection);
  EXPECT_TRUE(Parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keeps_connection);
}

struct Refusal {
  std::string text;
  int status;
  std::string message_part;
};

TEST(RequestParserTest, RefusesMalformedRequestsByName) {
  const std::string host = "Host: a\r\n";
  const std::vector<Refusal> refusals = {
      {"GET / HTTP/1.1\r\n\r\n", 400, "no Host"},
      {"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400, "more than one Host"},
      {"GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n", 400, "more than one Host"},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: [::1]evil.example\r\n\r\n", 400, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, "malformed Host"},
      {"GET http://[::1]a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "its host is malformed"},
      {"GET / HTTP/1.1\r\n" + host + "Origin: http://a\r\norigin: http://a\r\n\r\n", 400,
       "more than one Origin"},
      {"GET http://a<b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "its host is malformed"},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "malformed request"},
      {"GET / HTTP/1.1\nHost: a\n\n\r\n\r\n", 400, "malformed request"},
      {"GET /\r\n\r\n", 400, "malformed request"},
      {"GET / HTTX/1.1\r\n\r\n", 400, "malformed request"},
      {"\x16\x03\x01 garbage \x01\x02\r\n\r\n", 400, "malformed request"},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "only HTTP/1.0 and HTTP/1.1"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "only HTTP/1.0 and HTTP/1.1"},
      {"GET / HTTP/0.9\r\n\r\n", 505, "only HTTP/1.0 and HTTP/1.1"},
      {"CONNECT a:80 HTTP/1.1\r\n" + host + "\r\n", 501, "CONNECT"},
      {"GET * HTTP/1.1\r\n" + host + "\r\n", 400, "for OPTIONS only"},
      {"GET a HTTP/1.1\r\n" + host + "\r\n", 400, "does not begin with"},
      {"GET http HTTP/1.1\r\n" + host + "\r\n", 400, "does not begin with"},
      {"GET ftp://a/ HTTP/1.1\r\n" + host + "\r\n", 400, "does not begin with"},
      {"GET /%4 HTTP/1.1\r\n" + host + "\r\n", 400, "two hexadecimal digits"},
      {"GET /?%xx HTTP/1.1\r\n" + host + "\r\n", 400, "two hexadecimal digits"},
      {"GET /?a=%g0 HTTP/1.1\r\n" + host + "\r\n", 400, "two hexadecimal digits"},
      {"GET /%00 HTTP/1.1\r\n" + host + "\r\n", 400, "zero byte"},
      {"GET /%ff HTTP/1.1\r\n" + host + "\r\n", 400, "not UTF-8"},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
       400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\n", 400,
       "both Content-Length and Transfer-Encoding"},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999999\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", 501, "Transfer-Encoding"},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501,
       "Transfer-Encoding"},
      {"POST / HTTP/1.1\r\n" + host +
           "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
       501, "Transfer-Encoding"},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "in HTTP/1.0"},
      {"POST / HTTP/1.1\r\n" + host + "Content-Type: application/json\r\n\r\n", 411,
       "no Content-Length"},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Encoding: gzip\r\n\r\n", 415,
       "Content-Encoding"},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nExpect: a\r\n\r\n", 417, "Expect"},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host +
           "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n",
       400, ""},
  };
  for (const Refusal& refusal : refusals) {
    for (const std::size_t piece_bytes : {1uz, 1000uz}) {
      const Outcome outcome = Parse(refusal.text, {}, piece_bytes);
      EXPECT_EQ(outcome.error_status, refusal.status) << refusal.text << outcome.message;
      EXPECT_NE(outcome.message.find(refusal.message_part), std::string::npos)
          << refusal.text << outcome.message;
    }
  }
}

TEST(RequestParserTest, HoldsRequestsToTheLimits) {
  ServeLimits limits;
  limits.target_bytes_max = 20;
  limits.header_bytes_max = 200;
  limits.header_count_max = 4;
  limits.body_bytes_max = 10;
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  const std::vector<Refusal> refusals = {
      {"GET /" + std::string(20, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414, "21 bytes, 20 are"},
      {"GET /" + std::string(300, 'a'), 414, "longer than 200"},
      {head + "A: " + std::string(300, 'a') + "\r\n\r\n", 431, "longer than 200"},
      {head + "A: " + std::string(300, 'a'), 431, "longer than 200"},
      {head + "A: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", 431, "more than 4 headers"},
      {head + "Content-Length: 11\r\n\r\n", 413, "longer than 10"},
      {chunked + "b\r\n", 413, "longer than 10"},
      {chunked + "6\r\nabcdef\r\n6\r\nabcdef\r\n", 413, "longer than 10"},
      {chunked + "1;" + std::string(300, 'a'), 431, "longer than 200"},
      {chunked + "0\r\nA: " + std::string(300, 'a'), 431, "longer than 200"},
  };
  for (const Refusal& refusal : refusals) {
    for (const std::size_t piece_bytes : {1uz, 1000uz}) {
      const Outcome outcome = Parse(refusal.text, limits, piece_bytes);
      EXPECT_EQ(outcome.error_status, refusal.status) << refusal.text << outcome.message;
      EXPECT_NE(outcome.message.find(refusal.message_part), std::string::npos)
          << refusal.text << outcome.message;
    }
  }
  EXPECT_TRUE(Parse(chunked + "a\r\n0123456789\r\n0\r\n\r\n", limits).is_done);
  EXPECT_TRUE(Parse(head + "Content-Length: 10\r\n\r\n0123456789", limits).is_done);
  // Headers that arrive one by one are counted in all.
  std::string many = head;
  for (int i = 0; i < 3; ++i) many += "A: " + std::string(60, 'a') + "\r\n";
  EXPECT_EQ(Parse(many + "\r\n", limits, 70).error_status, 431);
}

TEST(RequestParserTest, DropsTheBodyOfARefusedRequest) {
  const ServeLimits limits;
  RequestParser parser(limits);
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
  ASSERT_EQ(parser.Put(head), head.size());
  parser.DropBody();
  ASSERT_EQ(parser.Put("body"), 4u);
  EXPECT_TRUE(parser.is_done());
  EXPECT_EQ(parser.body_bytes(), 4u);
  EXPECT_EQ(parser.request().body, "");
}

TEST(RequestParserTest, CountsTheBytesOfADroppedBody) {
  const ServeLimits limits;
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  RequestParser known(limits);
  ASSERT_TRUE(known.Put(start + "Content-Length: 4\r\n\r\n"));
  EXPECT_FALSE(known.drops_body());
  known.DropBody();
  EXPECT_TRUE(known.drops_body());
  EXPECT_EQ(known.dropped_bytes(), 4u);
  RequestParser chunked(limits);
  ASSERT_TRUE(chunked.Put(start + "Transfer-Encoding: chunked\r\n\r\n"));
  chunked.DropBody();
  EXPECT_EQ(chunked.dropped_bytes(), 0u);
  ASSERT_TRUE(chunked.Put("1;abc\r\nx\r\n"));
  EXPECT_EQ(chunked.dropped_bytes(), 9u);  // of lines
  ASSERT_TRUE(chunked.Put(Concat("14\r\n", std::string(20, 'x'))));
  EXPECT_EQ(chunked.dropped_bytes(), 21u);  // of chunks
  EXPECT_EQ(chunked.request().body, "");
}

TEST(RequestParserTest, SkipsEmptyLinesBeforeARequest) {
  EXPECT_EQ(EmptyLineBytes("\r\n\r\nGET"), 4u);
  EXPECT_EQ(EmptyLineBytes("\r\n\r"), 2u);
  EXPECT_EQ(EmptyLineBytes("GET"), 0u);
  EXPECT_EQ(EmptyLineBytes(""), 0u);
}

// A request that is changed at random gives the same outcome in one piece and byte by byte.
TEST(RequestParserTest, TheResultDoesNotDependOnBoundariesBetweenPieces) {
  std::mt19937 random(1);
  const std::string text =
      "POST /a?b=%41 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=b\r\nabc\r\n0\r\nA: b\r\n\r\n";
  ServeLimits limits;
  limits.header_bytes_max = 256;
  for (int round = 0; round < kvd::test::Scaled(20'000, 500); ++round) {
    std::string changed = text;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      changed[random() % changed.size()] = "\r\n :0a%;,\x80"[random() % 10];
    }
    const Outcome whole = Parse(changed, limits);
    const Outcome pieces = Parse(changed, limits, 1 + random() % 4);
    // Beast waits for the end of the headers before it parses pieces of them.
    if (pieces.error_status == 0 && !pieces.is_done) {
      ASSERT_FALSE(whole.is_done) << changed;
      continue;
    }
    ASSERT_EQ(whole.error_status, pieces.error_status) << changed;
    ASSERT_EQ(whole.is_done, pieces.is_done) << changed;
    ASSERT_EQ(whole.request.body, pieces.request.body) << changed;
  }
}

}  // namespace
}  // namespace kvd::http
