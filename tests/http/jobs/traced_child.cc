#include "tests/http/jobs/traced_child.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <utility>

namespace kvd::test {
namespace {

constexpr int kRefused = 77;
constexpr int kCallStop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD

bool TouchesFiles(std::uint64_t call) {
  constexpr std::uint64_t kCalls[] = {
      SYS_openat,     SYS_read,     SYS_pread64,   SYS_write,    SYS_pwrite64,
      SYS_ftruncate,  SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_mkdirat,
      SYS_getdents64, SYS_fsync,    SYS_fdatasync, SYS_fstat,    SYS_newfstatat,
#ifdef SYS_open
      SYS_open,       SYS_rename,   SYS_unlink,    SYS_mkdir,
#endif
  };
  return std::ranges::find(kCalls, call) != std::end(kCalls);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) != child) {
    if (errno != EINTR) return 0;
  }
  return status;
}

[[noreturn]] void RunChild(const std::function<int()>& work) {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kRefused);
  ::raise(SIGSTOP);
  ::_exit(work());
}

// Whether the child stands before or after a call that touches files. The call's number is told
// only before the call.
bool IsAtBoundary(pid_t child, bool& is_in_file_call) {
  __ptrace_syscall_info info{};
  if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) return false;
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
    is_in_file_call = TouchesFiles(info.entry.nr);
    return is_in_file_call;
  }
  return std::exchange(is_in_file_call, false);
}

}  // namespace

TracedEnd RunTraced(const std::function<int()>& work, std::optional<std::size_t> kill_at) {
  TracedEnd end;
  const pid_t child = ::fork();
  if (child == 0) RunChild(work);
  int status = WaitFor(child);
  end.is_allowed =
      child > 0 && WIFSTOPPED(status) &&
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) == 0;
  if (!end.is_allowed) return end;
  bool is_in_file_call = false;
  int signal = 0;
  for (;;) {
    (void)::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    status = WaitFor(child);
    if (!WIFSTOPPED(status)) break;
    signal = 0;
    if (WSTOPSIG(status) != kCallStop) {
      signal = WSTOPSIG(status);
    } else if (IsAtBoundary(child, is_in_file_call) && end.boundaries++ == kill_at) {
      end.is_killed = true;
      ::kill(child, SIGKILL);
      (void)WaitFor(child);
      return end;
    }
  }
  if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
  return end;
}

int RunForked(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  const int status = WaitFor(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace kvd::test
