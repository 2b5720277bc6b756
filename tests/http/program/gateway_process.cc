#include "tests/http/program/gateway_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

namespace kvd::http::test {
namespace {

bool WaitFor(const std::function<bool()>& is_true) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number behind the last occurrence of `text`; -1: none.
long NumberBehind(const std::string& all, const std::string& text) {
  const std::size_t at = all.rfind(text);
  return at == std::string::npos ? -1 : std::strtol(all.c_str() + at + text.size(), nullptr, 10);
}

}  // namespace

bool IsAlive(pid_t pid) {
  const std::string status = FileText("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t state = status.rfind(')');
  return state != std::string::npos && status.substr(state + 2, 1) != "Z";
}

bool WaitForEnd(pid_t pid) {
  return WaitFor([pid] { return !IsAlive(pid); });
}

GatewayProcess::GatewayProcess(std::string folder, std::vector<std::string> arguments,
                               bool names_state)
    : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_ + "/run");
  std::filesystem::permissions(folder_ + "/run", std::filesystem::perms::owner_all);
  static int count = 0;
  error_path_ = folder_ + "/error-" + std::to_string(count++);
  const char* const programs = std::getenv("KVD_BIN");
  const std::string program = std::string(programs == nullptr ? "." : programs) + "/kvd-http";
  std::vector<std::string> all = {program, "--port", "0"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  if (names_state) all.insert(all.end(), {"--", "--state-dir", folder_ + "/daemon-state"});
  std::vector<char*> pointers;
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  ::setenv("XDG_RUNTIME_DIR", (folder_ + "/run").c_str(), 1);
  ::dup2(::open(error_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  ::execv(program.c_str(), pointers.data());
  ::_exit(127);
}

GatewayProcess::~GatewayProcess() {
  const pid_t daemon = daemon_pid();
  if (pid_ > 0) {
    Signal(SIGKILL);
    (void)Wait();
  }
  if (daemon > 0 && IsAlive(daemon)) ::kill(daemon, SIGKILL);
  std::istringstream log(error_text());
  for (std::string line; std::getline(log, line);) {
    const bool is_long_turn = line.find("a turn of the event loop took") != std::string::npos;
    EXPECT_FALSE(is_long_turn && line.find("; known: ") == std::string::npos) << line;
  }
}

std::string GatewayProcess::error_text() const { return FileText(error_path_); }

pid_t GatewayProcess::daemon_pid() const {
  return static_cast<pid_t>(NumberBehind(error_text(), ", pid "));
}

bool GatewayProcess::WaitForText(const std::string& text) const {
  return WaitFor([&] { return error_text().find(text) != std::string::npos; });
}

bool GatewayProcess::WaitUntilReady() {
  return WaitFor([this] {
           if (!IsAlive(pid_)) return true;
           const std::string text = error_text();
           if (text.find("listening on http://") == std::string::npos || !text.ends_with('\n')) {
             return false;
           }
           port_ = static_cast<std::uint16_t>(NumberBehind(text, "127.0.0.1:"));
           return Get("/health").status == 200;
         }) &&
         IsAlive(pid_);
}

ReceivedReply GatewayProcess::Get(const std::string& target, const std::string& headers) const {
  RawClient client(port_);
  if (!client.is_connected() || !client.SendRequest("GET", target, headers)) return {};
  return client.ReadReply();
}

ReceivedReply GatewayProcess::Post(const std::string& target, const std::string& body,
                                   const std::string& headers) const {
  RawClient client(port_);
  if (!client.is_connected() || !client.SendRequest("POST", target, headers, body)) return {};
  return client.ReadReply();
}

void GatewayProcess::Signal(int number) const { ::kill(pid_, number); }

int GatewayProcess::Wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace kvd::http::test
