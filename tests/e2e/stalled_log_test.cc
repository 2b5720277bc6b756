// Tests a daemon whose standard error is a full pipe that no process reads.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

#include "tests/e2e/support/raw_client.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using testing::HasSubstr;

// Reads the bytes that are in the pipe, without waiting for more.
std::string Drain(int pipe) {
  std::string text;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

TEST(StalledLogTest, ADaemonWithAnUnreadLogServesClientsAndStops) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "log";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(pipe);
  auto daemon = DaemonProcess::Start(
      {.kvd_path = test::KvdPath(), .arguments = {"--log-level", "debug"}, .log_path = path});
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_THAT(Drain(pipe.get()), HasSubstr("info start pid="));

  const std::string filler(4096, '-');
  while (::write(pipe.get(), filler.data(), filler.size()) > 0) {
  }
  while (::write(pipe.get(), filler.data(), 1) > 0) {
  }
  for (int i = 0; i < 50; ++i) {
    const auto client = Client::Connect({.socket_path = daemon->socket_path(),
                                         .connect_timeout = std::chrono::seconds(20),
                                         .call_timeout = std::chrono::seconds(20)});
    ASSERT_TRUE(client) << "connection " << i << ": " << client.error().message;
    EXPECT_TRUE(client->Info());
    wire::Hello wrong = test::GoodHello();
    wrong.magic = 1;
    EXPECT_FALSE(test::RawClient::Connect(daemon->socket_path(), wrong));
  }

  // The daemon continues to write its log when the pipe is read.
  std::string text;
  const auto has = [&](std::string_view line) { return text.find(line) != std::string::npos; };
  for (int i = 0; i < 3000 && !(has("debug disconnect") && has("warning refused")); ++i) {
    text += Drain(pipe.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(text, HasSubstr("debug connect"));
  EXPECT_THAT(text, HasSubstr("warning refused"));

  while (::write(pipe.get(), filler.data(), filler.size()) > 0) {
  }
  const Status stopped = daemon->Stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
}

}  // namespace
}  // namespace kvd
