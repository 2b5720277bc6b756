// Where a server listens: ports, unix sockets, TLS, and the end of a server.
#include "http/serve/listener.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "base/text.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/serve/raw_client.h"
#include "tests/http/serve/self_signed.h"
#include "tests/http/serve/toy_server.h"

namespace kvd::http::test {
namespace {

using std::chrono::milliseconds;

TEST(ListenerTest, PicksAPortAndReportsItsUrl) {
  ToyServer server;
  EXPECT_GT(server.port(), 0);
  EXPECT_EQ(server.url(), Concat("http://127.0.0.1:", server.port()));
}

TEST(ListenerTest, RefusesAPortThatIsTaken) {
  ToyServer server;
  const auto address = ResolveListenAddress("127.0.0.1", server.port());
  ASSERT_TRUE(address);
  const auto second = ListeningSocket::Open(*address);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
}

TEST(ListenerTest, ListensOnAUnixSocketOfItsOwner) {
  const kvd::test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/socket";
  {
    ToyServer server(ToyOptions{.host = "unix:" + path, .access = {.is_loopback = false}});
    EXPECT_EQ(server.url(), "unix:" + path);
    struct stat made{};
    ASSERT_EQ(::lstat(path.c_str(), &made), 0);
    EXPECT_TRUE(S_ISSOCK(made.st_mode));
    EXPECT_EQ(made.st_mode & 0777, 0600u);
    RawClient client(path);
    ASSERT_TRUE(client.Send("GET /health HTTP/1.1\r\nHost: any\r\n\r\n"));
    EXPECT_EQ(client.ReadReply().body, R"({"status":"ok"})");
    // A second server does not take the socket of the first one.
    const auto second = ListeningSocket::Open(*ResolveListenAddress("unix:" + path, 0));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kBusy);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ListenerTest, ReplacesAStaleSocketAndNoOtherFile) {
  const kvd::test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/socket";
  const ListenAddress address = *ResolveListenAddress("unix:" + path, 0);
  {
    // A socket file without a server: bound, then closed.
    const UniqueFd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address.address),
                     address.address_bytes),
              0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  {
    const auto opened = ListeningSocket::Open(address);
    EXPECT_TRUE(opened) << opened.error().message;
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "a file";
  const auto refused = ListeningSocket::Open(address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExists);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ListenerTest, LeavesASocketFileThatIsNotItsOwn) {
  const kvd::test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/socket";
  {
    const auto opened = ListeningSocket::Open(*ResolveListenAddress("unix:" + path, 0));
    ASSERT_TRUE(opened);
    std::filesystem::remove(path);
    std::ofstream(path) << "a file";
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ListenerTest, SurvivesALackOfDescriptors) {
  ToyOptions options;
  options.limits.accept_pause = milliseconds(5);
  ToyServer server(options);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  RawClient client(server.port());
  ASSERT_TRUE(Eventually([&] { return server.connection_count() == 1; }));
  // The next connection needs a descriptor of this process at each side; only one is left.
  UniqueFd next(::dup(0));
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(next.get()) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  next.reset();
  RawClient starved(server.port());
  ASSERT_TRUE(starved.is_connected());
  ASSERT_TRUE(starved.SendRequest("GET", "/health"));
  std::this_thread::sleep_for(milliseconds(50));
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(starved.ReadReply().status, 200);
}

TEST(ListenerTest, StopsInOrder) {
  ToyServer server;
  RawClient idle(server.port());
  RawClient busy(server.port());
  ASSERT_TRUE(busy.SendRequest("GET", "/wait"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  ASSERT_TRUE(Eventually([&] { return server.connection_count() == 2; }));
  std::thread stopping([&] { server.Stop(std::chrono::minutes(1)); });
  EXPECT_EQ(idle.ReadToEnd(), "");
  idle.Close();
  EXPECT_FALSE(RawClient(server.port()).is_connected());
  server.Release();
  const ReceivedReply reply = busy.ReadReply();
  EXPECT_EQ(reply.body, "waited");
  EXPECT_EQ(reply.header("connection"), "close");
  busy.Close();
  stopping.join();
}

TEST(ListenerTest, BreaksRemainingConnectionsAfterTheGracePeriod) {
  ToyServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.SendRequest("GET", "/wait-stream"));
  ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  server.Stop(milliseconds(20));
  EXPECT_FALSE(client.ReadReply().is_whole);
  EXPECT_EQ(server.gone_count, 1);
  EXPECT_EQ(server.ended_count, 1);
}

// A TLS client over a connected socket.
class TlsClient {
 public:
  TlsClient(std::uint16_t port, int version_max)
      : socket_(port),
        context_(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free),
        ssl_(nullptr, &::SSL_free) {
    SSL_CTX_set_max_proto_version(context_.get(), version_max);
    ssl_.reset(::SSL_new(context_.get()));
    ::SSL_set_fd(ssl_.get(), socket_.descriptor());
    const unsigned char protocols[] = "\x02h2\x08http/1.1";
    ::SSL_set_alpn_protos(ssl_.get(), protocols, sizeof protocols - 1);
    is_connected_ = ::SSL_connect(ssl_.get()) == 1;
  }

  bool is_connected() const { return is_connected_; }
  std::string Ask(std::string_view text) {
    ::SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()));
    std::string reply(65536, '\0');
    const int byte_count = ::SSL_read(ssl_.get(), reply.data(), static_cast<int>(reply.size()));
    reply.resize(byte_count < 0 ? 0 : static_cast<std::size_t>(byte_count));
    return reply;
  }
  // Returns whether the server ends the connection by TLS's close notification.
  bool ReadsCloseNotification() {
    char byte = 0;
    const int read = ::SSL_read(ssl_.get(), &byte, 1);
    return ::SSL_get_error(ssl_.get(), read) == SSL_ERROR_ZERO_RETURN;
  }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned int name_bytes = 0;
    ::SSL_get0_alpn_selected(ssl_.get(), &name, &name_bytes);
    return {reinterpret_cast<const char*>(name), name_bytes};
  }

 private:
  RawClient socket_;
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl_;
  bool is_connected_ = false;
};

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    options_.tls = WriteSelfSigned(folder_.path().string(), "server");
    options_.limits.handshake_time = milliseconds(50);
  }

  kvd::test::TemporaryFolder folder_;
  ToyOptions options_;
};

TEST_F(TlsTest, ServesHttpThroughTls) {
  ToyServer server(options_);
  EXPECT_EQ(server.url(), Concat("https://127.0.0.1:", server.port()));
  TlsClient client(server.port(), 0);
  ASSERT_TRUE(client.is_connected());
  EXPECT_EQ(client.protocol(), "http/1.1");
  const std::string request = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_TRUE(client.Ask(request).ends_with(R"({"status":"ok"})"));
  EXPECT_TRUE(client.Ask(request).ends_with(R"({"status":"ok"})"));
  EXPECT_TRUE(client.Ask("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                  .ends_with(R"({"status":"ok"})"));
  EXPECT_TRUE(client.ReadsCloseNotification());
}

// The server reads on after the reply: closing a socket with unread bytes would send a reset.
TEST_F(TlsTest, DeliversTheRefusalOfALargeBody) {
  options_.limits.handshake_time = milliseconds(10'000);
  options_.limits.linger_time = milliseconds(60'000);
  ToyServer server(options_);
  const std::string body(8u << 20, 'a');
  for (const auto& [request, status] :
       {std::pair("POST /no-such-path", "404"), std::pair("POST /open", "413")}) {
    TlsClient client(server.port(), 0);
    ASSERT_TRUE(client.is_connected());
    const std::string reply =
        client.Ask(Concat(request, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(),
                          "\r\n\r\n", body));
    EXPECT_TRUE(reply.starts_with(Concat("HTTP/1.1 ", status))) << reply;
  }
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST_F(TlsTest, EndsAClientThatDoesNotCloseAfterARefusal) {
  options_.limits.handshake_time = milliseconds(10'000);
  options_.limits.linger_time = milliseconds(50);
  ToyServer server(options_);
  TlsClient client(server.port(), 0);
  ASSERT_TRUE(client.is_connected());
  const std::string reply = client.Ask(
      "POST /no-such-path HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nabc");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 404")) << reply;
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST_F(TlsTest, NoticesAHangUp) {
  ToyServer server(options_);
  {
    TlsClient client(server.port(), 0);
    ASSERT_TRUE(client.is_connected());
    (void)client.Ask("GET /wait-stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return server.started_count == 1; }));
  }
  EXPECT_TRUE(Eventually([&] { return server.ended_count == 1; }));
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST_F(TlsTest, NeedsTls12) {
  ToyServer server(options_);
  EXPECT_TRUE(TlsClient(server.port(), TLS1_2_VERSION).is_connected());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).is_connected());
}

TEST_F(TlsTest, ClosesClientsThatDoNotShakeHands) {
  ToyServer server(options_);
  RawClient silent(server.port());
  EXPECT_TRUE(silent.ReadsEnd());
  RawClient plain(server.port());
  ASSERT_TRUE(plain.SendRequest("GET", "/health"));
  EXPECT_TRUE(plain.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return server.connection_count() == 0; }));
}

TEST_F(TlsTest, RefusesFilesThatItCannotUse) {
  const TlsFiles good = *options_.tls;
  const TlsFiles other = WriteSelfSigned(folder_.path().string(), "other");
  const auto message_of = [](const TlsFiles& files) {
    const auto context = MakeTlsContext(files);
    if (context) return std::string("no error");
    EXPECT_EQ(context.error().code, Code::kInvalidArgument);
    return context.error().message;
  };
  EXPECT_EQ(message_of(good), "no error");
  EXPECT_NE(message_of({folder_.path().string() + "/none", good.key}).find("/none"),
            std::string::npos);
  EXPECT_NE(message_of({good.certificate, folder_.path().string() + "/none"}).find("/none"),
            std::string::npos);
  EXPECT_NE(message_of({good.certificate, other.key}).find("mismatch"), std::string::npos);
}

}  // namespace
}  // namespace kvd::http::test
