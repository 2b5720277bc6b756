#include "http/backend/daemon_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/text.h"
#include "http/backend/child_process.h"
#include "http/backend/daemon_plan.h"
#include "http/backend/gateway_directory.h"
#include "shm/socket_address.h"

namespace kvd::http {

// Ensure and Stop hold NAME.starting, so only one process at a time starts or stops the daemon, and
// NAME.gateways may be removed by Stop.

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kConnectTime{500};
constexpr milliseconds kPause{5};
constexpr milliseconds kLockPause{20};
// Starts of a daemon that is killed before it serves.
constexpr int kStartsMax = 5;
constexpr off_t kLogBytesMax = 16 << 20;
// For a daemon that is stopped to be started with other flags.
constexpr milliseconds kRestartTime{10'000};

UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void SendSignal(int pidfd, int number) {
  if (pidfd >= 0) (void)::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0);
}

bool HasExited(int pidfd, milliseconds wait) {
  pollfd polled{pidfd, POLLIN, 0};
  return ::poll(&polled, 1, static_cast<int>(wait.count())) > 0;
}

// Takes NAME.starting.
Result<UniqueFd> LockStart(const std::string& directory, const std::string& name,
                           const std::atomic<bool>* is_cancelled, Clock::time_point until) {
  KVD_TRY(UniqueFd file, OpenLockFile(Concat(directory, "/", name, ".starting")));
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FailErrno(name + ".starting");
    if (is_cancelled != nullptr && *is_cancelled) return Fail(Code::kCancelled, "stopped");
    if (Clock::now() > until) {
      return Fail(Code::kTimeout, name, ".starting: another kvd-http holds the lock");
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return file;
}

Result<std::string> SocketDirectory(const std::string& name) {
  KVD_TRY(const std::string path, MakeDefaultSocketPath(name));
  KVD_CHECK_OK(PrepareSocketDirectory(path));
  return path.substr(0, path.rfind('/'));
}

std::string ReadCommandLine(pid_t pid) {
  std::ifstream file(Concat("/proc/", pid, "/cmdline"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result<UniqueFd> OpenLog(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) == 0 && found.st_size > kLogBytesMax) {
    (void)::rename(path.c_str(), (path + ".old").c_str());
  }
  UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!log) return FailErrno(path);
  return log;
}

}  // namespace

std::string LastLine(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = std::move(line);
  }
  return last;
}

Status DaemonProcess::Connect() {
  KVD_TRY(const Client client, Client::Connect({.daemon_name = launch_.name,
                                                .client_name = "kvd-http",
                                                .connect_timeout = kConnectTime,
                                                .reconnect_timeout = milliseconds{0}}));
  const auto pid = static_cast<pid_t>(client.session().daemon_pid);
  if (pid == pid_ && exited_) return {};
  // The daemon has just answered, so the number belongs to it.
  exited_ = OpenPidfd(pid);
  if (!exited_) return FailErrno("pidfd_open");
  pid_ = pid;
  is_child_ = false;
  return {};
}

Result<pid_t> DaemonProcess::Start() {
  KVD_TRY(const UniqueFd log, OpenLog(launch_.log_path));
  return StartProgram(launch_.program, Arguments(), log.get(), log.get());
}

std::vector<std::string> DaemonProcess::Arguments() const {
  std::vector<std::string> arguments = {"--name", launch_.name};
  arguments.insert(arguments.end(), launch_.arguments.begin(), launch_.arguments.end());
  return arguments;
}

Status DaemonProcess::StopForOtherFlags() {
  // The conversion of a shared lock into an exclusive one fails if another process holds it, and
  // may release this one.
  if (::flock(users_.get(), LOCK_EX | LOCK_NB) != 0) {
    users_.reset();
    return Fail(Code::kExists, "the daemon ", launch_.name,
                " runs with other flags and is used by another kvd-http");
  }
  SendSignal(exited_.get(), SIGTERM);
  if (!HasExited(exited_.get(), kRestartTime)) {
    SendSignal(exited_.get(), SIGKILL);
    (void)HasExited(exited_.get(), kRestartTime);
  }
  exited_.reset();
  pid_ = -1;
  if (::flock(users_.get(), LOCK_SH | LOCK_NB) != 0) return FailErrno(launch_.name + ".gateways");
  return {};
}

Status DaemonProcess::WaitUntilServing(const std::atomic<bool>& is_cancelled) {
  while (true) {
    const Status connected = Connect();
    if (connected) return {};
    const Code code = connected.error().code;
    // A daemon that reads its model listens, and answers later.
    const bool is_starting = code == Code::kTimeout || (is_child_ && code == Code::kDisconnected);
    if (!is_starting) return connected;
    if (is_cancelled) return Fail(Code::kCancelled, "stopped");
    if (is_child_ && HasExited(exited_.get(), kPause)) {
      const std::string how = Reap();
      // It was killed by a signal, which says nothing about the next start.
      if (how == Concat("signal ", SIGKILL)) return Fail(Code::kDisconnected, "kvd was killed");
      const std::string line = LastLine(launch_.log_path);
      return Fail(Code::kIo, line.empty() ? "kvd has ended with " + how : line);
    }
  }
}

Status DaemonProcess::StartAndWait(const std::atomic<bool>& is_cancelled) {
  KVD_TRY(pid_, Start());
  exited_ = OpenPidfd(pid_);
  is_child_ = true;
  was_started_ = true;
  const Status serving = WaitUntilServing(is_cancelled);
  // A daemon that is not used yet is not left behind.
  if (!serving && is_child_) {
    SendSignal(exited_.get(), SIGTERM);
    if (!HasExited(exited_.get(), milliseconds{2000})) SendSignal(exited_.get(), SIGKILL);
    (void)Reap();
  }
  return serving;
}

Status DaemonProcess::Ensure(const std::atomic<bool>& is_cancelled) {
  KVD_TRY(const std::string directory, SocketDirectory(launch_.name));
  KVD_TRY(const UniqueFd starting,
          LockStart(directory, launch_.name, &is_cancelled, Clock::time_point::max()));
  KVD_TRY(users_, OpenLockFile(Concat(directory, "/", launch_.name, ".gateways")));
  if (::flock(users_.get(), LOCK_SH | LOCK_NB) != 0) return FailErrno(launch_.name + ".gateways");
  was_started_ = false;
  is_child_ = false;
  pid_ = -1;
  exited_.reset();
  const Status found = WaitUntilServing(is_cancelled);
  if (found && !HasFlags(ReadCommandLine(pid_), Arguments())) {
    KVD_CHECK_OK(StopForOtherFlags());
  } else if (found || found.error().code != Code::kDisconnected) {
    return found;
  }
  Status started = StartAndWait(is_cancelled);
  for (int starts = 1; starts < kStartsMax && !started; ++starts) {
    if (started.error().code != Code::kDisconnected || is_cancelled) break;
    started = StartAndWait(is_cancelled);
  }
  return started;
}

std::string DaemonProcess::Reap() {
  if (!std::exchange(is_child_, false)) return "unknown status";
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return "unknown status";
  }
  return WIFSIGNALED(status) ? Concat("signal ", WTERMSIG(status))
                             : Concat("exit status ", WEXITSTATUS(status));
}

Result<DaemonProcess::Stopped> DaemonProcess::Stop(bool forgets, milliseconds grace) {
  KVD_TRY(const std::string directory, SocketDirectory(launch_.name));
  KVD_TRY(const UniqueFd starting,
          LockStart(directory, launch_.name, nullptr, Clock::now() + grace));
  // The conversion of a shared lock into an exclusive one fails if another process holds it.
  if (users_ && ::flock(users_.get(), LOCK_EX | LOCK_NB) != 0) {
    users_.reset();
    return Stopped::kUsedByOthers;
  }
  (void)::unlink(Concat(directory, "/", launch_.name, ".gateways").c_str());
  users_.reset();
  bool was_killed = false;
  if (exited_) {
    SendSignal(exited_.get(), SIGTERM);
    was_killed = !HasExited(exited_.get(), grace);
    if (was_killed) {
      SendSignal(exited_.get(), SIGKILL);
      (void)HasExited(exited_.get(), grace);
    }
    (void)Reap();
    exited_.reset();
  }
  if (forgets) {
    std::vector<std::string> arguments = Arguments();
    arguments.emplace_back("--forget");
    KVD_CHECK_OK(RunProgram(launch_.program, arguments));
  }
  if (was_killed) return Fail(Code::kTimeout, launch_.name, ": did not end, and was killed");
  return Stopped::kStopped;
}

void DaemonProcess::SendReload() const { SendSignal(exited_.get(), SIGHUP); }

namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

// Time for the daemon to end; llama-server's callers wait 5 seconds for all of the end.
constexpr milliseconds kStopTime{2'500};
// Between two failed starts.
constexpr milliseconds kRetryMin{200};
constexpr milliseconds kRetryMax{5'000};
constexpr milliseconds kPoll{5};

}  // namespace

DaemonKeeper::DaemonKeeper(Loop& loop, LoopWorkers& workers, DaemonLaunch launch)
    : loop_(loop), workers_(workers), process_(std::move(launch)) {}

DaemonKeeper::~DaemonKeeper() {
  // The descriptor belongs to the process.
  if (exit_) (void)exit_->release();
}

Await<Status> DaemonKeeper::Start() {
  is_ensuring_ = true;
  Status ensured = co_await workers_.Run([this] { return process_.Ensure(is_stopping_); });
  is_ensuring_ = false;
  co_return ensured;
}

Await<void> DaemonKeeper::WaitForExit() {
  exit_.emplace(loop_, process_.exit_descriptor());
  (void)co_await exit_->async_wait(asio::posix::stream_descriptor::wait_read,
                                   asio::as_tuple(asio::use_awaitable));
  (void)exit_->release();
  exit_.reset();
}

Await<void> DaemonKeeper::StartAgain() {
  asio::steady_timer timer(loop_);
  for (milliseconds pause = kRetryMin; !is_stopping_; pause = std::min(2 * pause, kRetryMax)) {
    const Status started = co_await Start();
    if (started || is_stopping_) co_return;
    std::fprintf(stderr, "kvd-http: the daemon does not start: %s\n",
                 started.error().message.c_str());
    timer.expires_after(pause);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

Await<void> DaemonKeeper::Keep(std::shared_ptr<DaemonKeeper> keeper) {
  while (!keeper->is_stopping_) {
    co_await keeper->WaitForExit();
    if (keeper->is_stopping_) break;
    const std::string how = keeper->process_.Reap();
    std::fprintf(stderr, "kvd-http: the daemon %s has ended (%s); starting it again\n",
                 keeper->process_.name().c_str(), how.c_str());
    co_await keeper->StartAgain();
    if (keeper->is_stopping_) break;
    std::fprintf(stderr, "kvd-http: started the daemon %s again, pid %d\n",
                 keeper->process_.name().c_str(), static_cast<int>(keeper->process_.pid()));
  }
}

Await<Result<DaemonProcess::Stopped>> DaemonKeeper::Stop(bool forgets) {
  is_stopping_ = true;
  if (exit_) exit_->cancel();
  asio::steady_timer timer(loop_);
  while (is_ensuring_ || exit_) {
    timer.expires_after(kPoll);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return co_await workers_.Run([&] { return process_.Stop(forgets, kStopTime); });
}

}  // namespace kvd::http
