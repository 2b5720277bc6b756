#include "http/backend/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "base/unique_fd.h"

namespace kvd::http {
namespace {

constexpr std::size_t kOutputBytesMax = 64u << 10;

// The attributes and file actions of posix_spawn, destroyed at the end of the scope.
class SpawnPlan {
 public:
  SpawnPlan(int output, int error) {
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_init(&actions_);
    sigset_t signals;
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, error, STDERR_FILENO);
    // Asio opens its sockets without FD_CLOEXEC. A daemon that inherits the listening socket would
    // keep the port in use after the end of the gateway.
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  const posix_spawnattr_t* attributes() const { return &attributes_; }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

bool IsProgram(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return FailErrno("pipe");
  return Pipe{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

// Reads both pipes until their ends.
void ReadBoth(int output, int error, std::string& output_text, std::string& error_text) {
  std::array<pollfd, 2> polled = {{{output, POLLIN, 0}, {error, POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&output_text, &error_text};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(polled[i].fd, bytes.data(), bytes.size());
      if (got <= 0) {
        polled[i].fd = -1;
      } else if (texts[i]->size() < kOutputBytesMax) {
        texts[i]->append(bytes.data(), static_cast<std::size_t>(got));
      }
    }
  }
}

}  // namespace

Result<pid_t> StartProgram(const std::string& program, const std::vector<std::string>& arguments,
                           int output, int error) {
  std::vector<char*> pointers = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const SpawnPlan plan(output, error);
  pid_t pid = -1;
  errno = ::posix_spawn(&pid, program.c_str(), plan.actions(), plan.attributes(), pointers.data(),
                        environ);
  if (errno != 0) return FailErrno(program);
  return pid;
}

Result<std::string> RunProgram(const std::string& program,
                               const std::vector<std::string>& arguments) {
  KVD_TRY(Pipe output, MakePipe());
  KVD_TRY(Pipe error, MakePipe());
  KVD_TRY(const pid_t pid, StartProgram(program, arguments, output.write.get(), error.write.get()));
  output.write.reset();
  error.write.reset();
  std::string output_text;
  std::string error_text;
  ReadBoth(output.read.get(), error.read.get(), output_text, error_text);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output_text;
  while (error_text.ends_with('\n')) error_text.pop_back();
  if (error_text.empty()) error_text = program + " has failed";
  return Fail(Code::kInvalidArgument, error_text);
}

Result<std::string> FindDaemonProgram() {
  std::array<char, PATH_MAX> own{};
  const ssize_t length = ::readlink("/proc/self/exe", own.data(), own.size());
  if (length > 0) {
    const std::string_view path(own.data(), static_cast<std::size_t>(length));
    std::string beside = std::string(path.substr(0, path.rfind('/') + 1)) + "kvd";
    if (IsProgram(beside)) return beside;
  }
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    std::string candidate = std::string(folder) + "/kvd";
    if (!folder.empty() && IsProgram(candidate)) return candidate;
  }
  return Fail(Code::kNotFound, "the program kvd is neither beside kvd-http nor in PATH");
}

}  // namespace kvd::http
