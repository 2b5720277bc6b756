#include "daemon/process/process_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>

#include "daemon/process/log.h"

namespace kvd {
namespace {

// How long a fault handler waits for queued log lines to be written before the daemon ends.
constexpr std::chrono::milliseconds kFlushAtFault{200};

// Handles SIGABRT. After the handler returns, abort() ends the process.
extern "C" void OnAbort(int) { FlushLog(kFlushAtFault); }

// Handles SIGBUS: the tmpfs has no page left, or a process of the same uid has truncated a mapped
// file. The daemon cannot continue, so it reports the fault and ends.
extern "C" void OnBusError(int) {
  static constexpr char kText[] = "kvd: a mapped file shrank or its memory ran out (SIGBUS)\n";
  FlushLog(kFlushAtFault);
  pollfd error_output{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&error_output, 1, 0) == 1) (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(1);
}

}  // namespace

Result<UniqueFd> OpenSignals() {
  sigset_t stops;
  ::sigemptyset(&stops);
  ::sigaddset(&stops, SIGTERM);
  ::sigaddset(&stops, SIGINT);
  ::sigaddset(&stops, SIGHUP);
  if (::pthread_sigmask(SIG_BLOCK, &stops, nullptr) != 0) return FailErrno("signals");
  UniqueFd signals(::signalfd(-1, &stops, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals) return FailErrno("signals");
  struct sigaction on_bus{};
  on_bus.sa_handler = OnBusError;
  ::sigaction(SIGBUS, &on_bus, nullptr);
  struct sigaction on_abort{};
  on_abort.sa_handler = OnAbort;
  ::sigaction(SIGABRT, &on_abort, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  // With SIGXFSZ ignored, a write beyond RLIMIT_FSIZE fails with EFBIG instead of ending the
  // process. RLIMIT_FSIZE also applies to the segments of clients, which are files.
  ::signal(SIGXFSZ, SIG_IGN);
  return signals;
}

}  // namespace kvd
