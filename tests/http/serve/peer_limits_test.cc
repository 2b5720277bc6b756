// The limits for each address: of peers, of the addresses that a trusted proxy forwards, and none
// through a unix socket.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/serve/raw_client.h"
#include "tests/http/serve/toy_server.h"

namespace kvd::http::test {
namespace {

constexpr const char* kLoopback = "127.0.0.0/8";

ToyOptions SmallOptions(std::vector<std::string> trusted_proxies) {
  ToyOptions options;
  options.limits.body_bytes_per_address_max = 1000;
  options.trusted_proxies = std::move(trusted_proxies);
  return options;
}

std::string Forwarded(std::string_view address) {
  return address.empty() ? std::string() : Concat("X-Forwarded-For: ", address, "\r\n");
}

// A client whose body of 800 bytes the server holds, because the last byte is missing.
class Holder {
 public:
  Holder(ToyServer& server, std::string_view address) : client_(server.port()) {
    const std::size_t before = server.held_body_bytes();
    EXPECT_TRUE(client_.SendRequest("POST", "/echo",
                                    Concat(Forwarded(address), "Content-Length: 800\r\n")));
    EXPECT_TRUE(client_.Send(std::string(799, 'a')));
    EXPECT_TRUE(Eventually([&] { return server.held_body_bytes() == before + 799; }));
  }
  int Finish() {
    EXPECT_TRUE(client_.Send("a"));
    return client_.ReadReply().status;
  }

 private:
  RawClient client_;
};

int StatusOfBody(ToyServer& server, std::string_view address, std::size_t body_bytes = 300) {
  RawClient client(server.port());
  EXPECT_TRUE(
      client.SendRequest("POST", "/echo", Forwarded(address), std::string(body_bytes, 'b')));
  return client.ReadReply().status;
}

TEST(PeerLimitsTest, BoundsTheBodiesOfOneAddress) {
  ToyServer server(SmallOptions({}));
  Holder holder(server, "");
  EXPECT_EQ(StatusOfBody(server, "", 200), 200);
  RawClient second(server.port());
  ASSERT_TRUE(second.SendRequest("POST", "/echo", "", std::string(300, 'b')));
  const ReceivedReply reply = second.ReadReply();
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_NE(reply.body.find("rate_limit_error"), std::string::npos) << reply.body;
  // The refused body does not count, although its client has not closed the connection.
  EXPECT_TRUE(Eventually([&] { return server.held_body_bytes() == 799; }));
  EXPECT_EQ(holder.Finish(), 200);
  EXPECT_EQ(StatusOfBody(server, ""), 200);
}

TEST(PeerLimitsTest, IgnoresTheForwardedAddressOfAnUntrustedPeer) {
  for (const std::vector<std::string>& trusted :
       {std::vector<std::string>{}, std::vector<std::string>{"10.0.0.0/8", "::1"}}) {
    ToyServer server(SmallOptions(trusted));
    Holder holder(server, "192.0.2.1");
    EXPECT_EQ(StatusOfBody(server, "192.0.2.2"), 429);
    EXPECT_EQ(holder.Finish(), 200);
  }
}

TEST(PeerLimitsTest, CountsBodiesForTheAddressThatATrustedProxyForwards) {
  ToyServer server(SmallOptions({"::1", kLoopback}));
  Holder first(server, "192.0.2.1");
  Holder second(server, "203.0.113.9, 2001:db8::1");
  Holder third(server, "unknown");  // counts for the proxy
  struct Case {
    const char* forwarded;
    int status;
  };
  const std::vector<Case> cases = {
      {"192.0.2.1", 429},
      {"198.51.100.7, 192.0.2.1:4711", 429},
      {"192.0.2.1, 192.0.2.2", 200},
      {"[2001:db8::2]:443", 429},
      {"2001:db8:0:1::1", 200},
      {"203.0.113.9", 200},
      {"", 429},
      {"_hidden", 429},
      {"192.0.2.3,", 429},
      {"127.0.0.1", 429},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(StatusOfBody(server, each.forwarded), each.status) << each.forwarded;
  }
  // Each request of a connection counts for its own address.
  RawClient client(server.port());
  for (const char* address : {"192.0.2.4", "192.0.2.5", "192.0.2.1"}) {
    ASSERT_TRUE(client.SendRequest("POST", "/echo", Forwarded(address), std::string(300, 'b')));
    EXPECT_EQ(client.ReadReply().status, address == std::string_view("192.0.2.1") ? 429 : 200);
  }
  EXPECT_EQ(first.Finish(), 200);
  EXPECT_EQ(second.Finish(), 200);
  EXPECT_EQ(third.Finish(), 200);
}

TEST(PeerLimitsTest, OneAddressCannotMakeTheBodiesOfOthersFail) {
  ToyOptions options = SmallOptions({kLoopback});
  options.limits.body_bytes_in_all_max = 4000;
  ToyServer server(options);
  Holder holder(server, "192.0.2.1");
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(StatusOfBody(server, "192.0.2.1"), 429);
    EXPECT_EQ(StatusOfBody(server, Concat("192.0.2.", i + 2)), 200);
  }
}

TEST(PeerLimitsTest, BoundsTheConnectionsOfATrustedProxyInAllOnly) {
  for (const bool is_trusted : {false, true}) {
    ToyOptions options = SmallOptions({is_trusted ? kLoopback : "10.0.0.0/8"});
    options.limits.connections_per_peer_max = 1;
    options.limits.connection_count_max = 2;
    ToyServer server(options);
    RawClient first(server.port());
    ASSERT_TRUE(Eventually([&] { return server.connection_count() == 1; }));
    RawClient second(server.port());
    (void)second.SendRequest("GET", "/health");
    EXPECT_EQ(second.ReadReply().status, is_trusted ? 200 : 503);
    RawClient third(server.port());
    (void)third.SendRequest("GET", "/health");
    EXPECT_EQ(third.ReadReply().status, 503);
  }
}

TEST(PeerLimitsTest, PeerLimitsDoNotApplyToAUnixSocket) {
  const kvd::test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/socket";
  ToyOptions options = SmallOptions({"0.0.0.0/0", "::/0"});
  options.host = "unix:" + path;
  options.access.is_loopback = false;
  options.limits.connections_per_peer_max = 1;
  options.limits.body_bytes_in_all_max = 2000;
  ToyServer server(options);
  RawClient holder(path);
  ASSERT_TRUE(
      holder.SendRequest("POST", "/echo", Forwarded("192.0.2.1") + "Content-Length: 1500\r\n"));
  ASSERT_TRUE(holder.Send(std::string(1499, 'a')));
  ASSERT_TRUE(Eventually([&] { return server.held_body_bytes() == 1499; }));
  RawClient second(path);
  ASSERT_TRUE(second.SendRequest("POST", "/echo", Forwarded("192.0.2.1"), std::string(400, 'b')));
  EXPECT_EQ(second.ReadReply().status, 200);
  // The limit in all holds.
  ASSERT_TRUE(second.SendRequest("POST", "/echo", "", std::string(600, 'b')));
  EXPECT_EQ(second.ReadReply().status, 503);
}

}  // namespace
}  // namespace kvd::http::test
