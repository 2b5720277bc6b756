// Clients that vanish, and what remains of them.
#include <dirent.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "tests/http/serve/raw_client.h"
#include "tests/http/serve/toy_server.h"
#include "tests/support/test_scale.h"

namespace kvd::http::test {
namespace {

int DescriptorCount() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::size_t HeapBytes() { return ::mallinfo2().uordblks; }

TEST(HangUpTest, TellsTheHandlerWhenTheClientCloses) {
  ToyServer server;
  for (const bool with_reset : {false, true}) {
    for (const char* path : {"/wait", "/wait-stream"}) {
      const int before = server.started_count;
      RawClient client(server.port());
      ASSERT_TRUE(client.SendRequest("GET", path));
      ASSERT_TRUE(Eventually([&] { return server.started_count == before + 1; }));
      if (with_reset) {
        client.Reset();
      } else {
        client.Close();
      }
      EXPECT_TRUE(Eventually([&] { return server.ended_count == before + 1; }));
      EXPECT_EQ(server.gone_count, before + 1);
    }
  }
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST(HangUpTest, AHangUpIsNoticedAfterPipelinedRequests) {
  ToyOptions options;
  options.limits.waiting_requests_max = 2;
  ToyServer server(options);
  RawClient client(server.port());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_TRUE(client.Send(text));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
  EXPECT_EQ(server.ended_count, server.started_count);
}

TEST(HangUpTest, AHangUpIsNoticedWhileTheClientWaitsForContinue) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait"));
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
  EXPECT_EQ(server.gone_count, 1);
}

// As "nc -N" does.
TEST(HangUpTest, DeliversShortRepliesToAClientThatHasClosedItsSide) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  ASSERT_TRUE(client.SendRequest("GET", "/part/x"));
  client.CloseSendingSide();
  EXPECT_EQ(client.ReadReply().body, R"({"status":"ok"})");
  EXPECT_EQ(client.ReadReply().body, "x|");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST(HangUpTest, EndsLongWorkForAClientThatHasClosedItsSide) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait-stream"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  client.CloseSendingSide();
  EXPECT_TRUE(Eventually([&] { return server.ended_count == 1; }));
  EXPECT_FALSE(client.ReadReply().is_whole);
}

TEST(HangUpTest, EndsRequestsThatAreNotComplete) {
  ToyServer server;
  for (const char* text :
       {"", "G", "GET / HTTP/1.1\r\nHo",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(text));
    client.Close();
  }
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

// Opens streams, waits until their handlers run, and closes the clients.
void AbortStreams(ToyServer& server, int count) {
  constexpr int kAtOnce = 50;
  for (int done = 0; done < count; done += kAtOnce) {
    const int before = server.started_count;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kAtOnce; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      ASSERT_TRUE(clients.back()->SendRequest("GET", i % 2 == 0 ? "/wait-stream" : "/flood"));
    }
    ASSERT_TRUE(Eventually([&] { return server.started_count == before + kAtOnce; }));
    for (int i = 0; i < kAtOnce; ++i) {
      if (i % 4 < 2) clients[static_cast<std::size_t>(i)]->Reset();
    }
  }
  ASSERT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
  ASSERT_TRUE(Eventually([&] { return server.ended_count == server.started_count; }));
}

TEST(HangUpTest, AThousandAbortedStreamsLeakNothing) {
  ToyServer server;
  AbortStreams(server, 200);
  const int descriptors = DescriptorCount();
  const std::size_t heap_bytes = HeapBytes();
  AbortStreams(server, kvd::test::Scaled(1000, 100));
  EXPECT_EQ(DescriptorCount(), descriptors);
  if (!kIsSanitized) {
    EXPECT_LT(HeapBytes(), heap_bytes + (64u << 10));
  }
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
}

std::size_t HeapBytesPerClient(ToyServer& server, const char* path) {
  constexpr std::size_t kClients = 200;
  const int before = server.started_count;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
  }
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == kClients; }));
  const std::size_t idle_bytes = HeapBytes();
  for (const auto& client : clients) EXPECT_TRUE(client->SendRequest("GET", path));
  const int expected = before + static_cast<int>(kClients);
  EXPECT_TRUE(Eventually([&] { return server.started_count == expected; }));
  const std::size_t stream_bytes = HeapBytes();
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
  const std::size_t empty_bytes = HeapBytes();
  ::testing::Test::RecordProperty("idle_connection_bytes",
                                  static_cast<int>((idle_bytes - empty_bytes) / kClients));
  return (stream_bytes - empty_bytes) / kClients;
}

TEST(HangUpTest, AnIdleStreamCostsLessThanSixteenKiB) {
  ToyServer server;
  const std::size_t bytes = HeapBytesPerClient(server, "/wait-stream");
  RecordProperty("idle_stream_bytes", static_cast<int>(bytes));
  if (!kIsSanitized) {
    EXPECT_LT(bytes, 16u << 10);
  }
}

}  // namespace
}  // namespace kvd::http::test
