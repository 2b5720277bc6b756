// The systemd units: the command line of each service, started as its socket unit starts it, serves
// the clients that name the daemon by the unit's instance.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "client/client.h"
#include "shm/socket_address.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/user_shell.h"

namespace kvd {
namespace {

// The value of a setting of a unit, for an instance whose runtime directory is `runtime`.
std::string Setting(const std::string& unit, const std::string& name, const std::string& instance,
                    const std::string& runtime) {
  std::ifstream file("packaging/" + unit);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::smatch found;
  EXPECT_TRUE(std::regex_search(text, found, std::regex("\n" + name + "=([^\n]*)"))) << unit;
  std::string value = found[1];
  const std::pair<std::string, std::string> replaced[] = {
      {"%i", instance}, {"%t", runtime}, {"@KVD_BINDIR@", BinaryFolder()}};
  for (const auto& [from, to] : replaced) {
    for (std::size_t at; (at = value.find(from)) != std::string::npos;) {
      value.replace(at, from.size(), to);
    }
  }
  return value;
}

class SystemdUnitsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    runtime_ = shell_.folder().string();
    ::setenv("XDG_RUNTIME_DIR", runtime_.c_str(), 1);
    ::unsetenv("KVD_SOCKET");
  }
  void TearDown() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    if (pid_ <= 0) return;
    (void)::kill(pid_, SIGTERM);
    int status = 0;
    (void)::waitpid(pid_, &status, 0);
  }
  // Listens as systemd does for the socket unit.
  UniqueFd Listen() {
    const std::string path = Setting("kvd@.socket.in", "ListenStream", GetParam(), runtime_);
    const std::string mode = Setting("kvd@.socket.in", "DirectoryMode", GetParam(), runtime_);
    (void)::mkdir(path.substr(0, path.rfind('/')).c_str(),
                  static_cast<mode_t>(std::strtol(mode.c_str(), nullptr, 8)));
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = MakeSocketAddress(path);
    EXPECT_TRUE(address);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address->address),
                     address->address_bytes),
              0);
    EXPECT_EQ(::listen(socket.get(), 8), 0);
    return socket;
  }
  // Starts the command of a service; `flags` are those of its environment file.
  void Start(const std::string& unit, const std::string& flags, int socket) {
    std::istringstream words(std::regex_replace(Setting(unit, "ExecStart", GetParam(), runtime_),
                                                std::regex("\\$KVD_(HTTP_)?FLAGS"), flags));
    std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ != 0) return;
    (void)::dup2(::fcntl(socket, F_DUPFD, 10), 3);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
    ::execv(raw[0], raw.data());
    ::_exit(127);
  }

  const test::UserShell shell_;
  std::string runtime_;
  pid_t pid_ = -1;
};

TEST_P(SystemdUnitsTest, AClientThatNamesTheInstanceStartsTheDaemonByItsSocket) {
  const std::string instance = GetParam();
  const UniqueFd socket = Listen();
  Start("kvd@.service.in", "-t 1 -c 512 --no-tuning --log-level error", socket.get());
  const auto client =
      Client::Connect({.daemon_name = instance == "default" ? "" : instance,
                       .connect_timeout = std::chrono::milliseconds(std::chrono::seconds(60))});
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(client->session().socket_path, runtime_ + "/kvd/" + instance + ".sock");
  EXPECT_EQ(client->session().daemon_pid, static_cast<std::uint32_t>(pid_));
  // An inherited socket does not change the name, by which the daemon's state is found.
  EXPECT_THAT(shell_.Done("kvctl daemons " + instance),
              ::testing::HasSubstr("running, pid " + std::to_string(pid_)));
}

INSTANTIATE_TEST_SUITE_P(Instances, SystemdUnitsTest, ::testing::Values("default", "my-model.7b"),
                         [](const auto& named) {
                           return std::string(named.param) == "default" ? "Default" : "Named";
                         });

}  // namespace
}  // namespace kvd
