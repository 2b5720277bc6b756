#include "tools/daemon_process/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "client/client.h"

namespace kvd {
namespace {

constexpr int kStopSecondsMax = 30;
constexpr auto kPollInterval = std::chrono::milliseconds(1);
constexpr auto kConnectTimeout = std::chrono::milliseconds(500);

// Exec runs in the child process between fork and exec, so it makes only async-signal-safe calls.
[[noreturn]] void Exec(const char* path, char* const* arguments, int log) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv(path, arguments);
  ::_exit(127);
}

}  // namespace

std::string BinaryFolder() {
  if (const char* folder = std::getenv("KVD_BIN"); folder != nullptr && *folder != '\0')
    return folder;
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  // Programs of tests and benches are in folders next to bin/, the folder of kvd.
  const auto beside = folder.parent_path() / "bin";
  const bool is_beside = !std::filesystem::exists(folder / "kvd", ignored) &&
                         std::filesystem::exists(beside / "kvd", ignored);
  return (is_beside ? beside : folder).string();
}

Result<DaemonProcess> DaemonProcess::Start(const Options& options) {
  DaemonProcess daemon;
  std::string folder = (std::filesystem::temp_directory_path() / "kvd-own-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return FailErrno("mkdtemp " + folder);
  daemon.folder_ = folder;
  daemon.socket_path_ = folder + "/run/kvd.sock";
  daemon.log_path_ = options.log_path.empty() ? folder + "/kvd.log" : options.log_path;
  std::error_code problem;
  std::filesystem::create_directory(folder + "/run", problem);
  std::filesystem::permissions(folder + "/run", std::filesystem::perms::owner_all, problem);

  daemon.options_ = options;
  KVD_CHECK_OK(daemon.Launch());
  return daemon;
}

Status DaemonProcess::Launch() {
  std::vector<std::string> arguments = {options_.kvd_path, "--socket", socket_path_, "--state-dir",
                                        folder_ + "/state"};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int log = ::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return FailErrno(log_path_);
  const pid_t child = ::fork();
  if (child == 0) Exec(options_.kvd_path.c_str(), pointers.data(), log);
  ::close(log);
  if (child < 0) return FailErrno("fork");
  pid_ = child;
  return WaitUntilReady(options_.start_seconds_max);
}

void DaemonProcess::Kill() {
  if (pid_ < 0) return;
  const pid_t child = std::exchange(pid_, -1);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
}

Status DaemonProcess::StartAgain() {
  KVD_CHECK_OK(Stop());
  return Launch();
}

Status DaemonProcess::StartAgain(std::vector<std::string> arguments) {
  options_.arguments = std::move(arguments);
  return StartAgain();
}

Status DaemonProcess::WaitUntilReady(int seconds_max) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_max);
  while (std::chrono::steady_clock::now() < deadline) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return Fail(Code::kDisconnected, "kvd ended while it started:\n", log_text());
    }
    // The attempt is short, because a daemon that has ended is noticed only between attempts.
    if (::access(socket_path_.c_str(), F_OK) == 0 &&
        Client::Connect({.socket_path = socket_path_, .connect_timeout = kConnectTimeout})) {
      return {};
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return Fail(Code::kTimeout, "kvd accepts no connections after ", seconds_max, " s:\n",
              log_text());
}

DaemonProcess::DaemonProcess(DaemonProcess&& other) noexcept
    : options_(std::move(other.options_)),
      folder_(std::exchange(other.folder_, {})),
      socket_path_(std::move(other.socket_path_)),
      log_path_(std::move(other.log_path_)),
      pid_(std::exchange(other.pid_, -1)) {}

DaemonProcess::~DaemonProcess() {
  (void)Stop();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::string DaemonProcess::log_text() const {
  std::ifstream file(log_path_);
  return {std::istreambuf_iterator<char>(file), {}};
}

Status DaemonProcess::Stop() {
  if (pid_ < 0) return {};
  const pid_t child = std::exchange(pid_, -1);
  ::kill(child, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kStopSecondsMax);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return Fail(Code::kTimeout, "kvd did not stop within ", kStopSecondsMax, " s and was killed");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(Code::kInternal, "kvd ended with status ", status, ":\n", log_text());
}

}  // namespace kvd
