// Tests a daemon that is started with a listening socket, as by a service manager (LISTEN_FDS).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "client/client.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

class SocketActivationTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (pid_ > 0) (void)Stop();
  }

  std::string PathOf(const std::string& name) const { return (folder_.path() / name).string(); }
  // Binds a Unix socket of the given type, and lets it listen if `listens`.
  UniqueFd Bind(const std::string& path, int type = SOCK_STREAM, bool listens = true) {
    UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (listens) {
      EXPECT_EQ(::listen(socket.get(), 8), 0);
    }
    return socket;
  }
  // Starts kvd with `descriptor` as its descriptor 3 and LISTEN_FDS set to `count`.
  void Start(int descriptor, const std::string& count, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {test::KvdPath(), "--state-dir", PathOf("state")});
    const std::string log = PathOf("log");
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ != 0) return;
    const int out = ::open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    (void)::dup2(out, STDERR_FILENO);
    const int kept = ::fcntl(descriptor, F_DUPFD, 10);
    (void)::dup2(kept, 3);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", count.c_str(), 1);
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    ::execv(raw[0], raw.data());
    ::_exit(127);
  }
  int Stop() {
    (void)::kill(pid_, SIGTERM);
    return Wait();
  }
  int Wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Log() const {
    std::ifstream file(PathOf("log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::TemporaryFolder folder_;
  pid_t pid_ = -1;
};

TEST_F(SocketActivationTest, ClientsThatConnectBeforeTheDaemonRunsAreServed) {
  const std::string path = PathOf("activated.sock");
  const UniqueFd socket = Bind(path);
  struct stat before{};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  Start(socket.get(), "1");
  const auto client = Client::Connect({.socket_path = path});
  ASSERT_TRUE(client) << client.error().message << Log();
  EXPECT_TRUE(client->Ping(16));
  struct stat after{};
  ASSERT_EQ(::stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_mode, before.st_mode) << "the modes are the manager's";
  EXPECT_EQ(Stop(), 0);
  EXPECT_EQ(::stat(path.c_str(), &after), 0) << "the file is the manager's";
}

TEST_F(SocketActivationTest, SeveralSocketsAreRefused) {
  Start(Bind(PathOf("a.sock")).get(), "2");
  EXPECT_NE(Wait(), 0);
  EXPECT_THAT(Log(), HasSubstr("LISTEN_FDS: 2 sockets were passed, 1 is expected"));
}

TEST_F(SocketActivationTest, ASocketThatDoesNotListenIsRefused) {
  Start(Bind(PathOf("a.sock"), SOCK_STREAM, /*listens=*/false).get(), "1");
  EXPECT_NE(Wait(), 0);
  EXPECT_THAT(Log(), HasSubstr("descriptor 3 is not a listening Unix stream socket"));
}

TEST_F(SocketActivationTest, AFileIsRefused) {
  const UniqueFd file(::open(PathOf("file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  Start(file.get(), "1");
  EXPECT_NE(Wait(), 0);
  EXPECT_THAT(Log(), HasSubstr("descriptor 3 is not a socket"));
}

TEST_F(SocketActivationTest, AnotherPathThanThatOfTheSocketIsRefused) {
  Start(Bind(PathOf("a.sock")).get(), "1", {"--socket", PathOf("b.sock")});
  EXPECT_NE(Wait(), 0);
  EXPECT_THAT(Log(), HasSubstr("but the inherited socket is"));
}

}  // namespace
}  // namespace kvd
