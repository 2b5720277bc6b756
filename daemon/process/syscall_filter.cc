// The filter allows only the system calls that glibc, libstdc++, Asio, spdlog and the daemon's code
// make after the start. The filter allows no call that creates a process, runs a program, creates a
// socket, or signals or inspects another process. Asio needs no call that creates a socket, because
// it only uses accepted sockets.
#include "daemon/process/sandbox.h"

#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <system_error>

#include "base/sanitizers.h"

namespace kvd {
namespace {

// Calls that are allowed with any arguments.
constexpr auto kAllowed = std::to_array<int>({
    // memory
    SCMP_SYS(brk),
    SCMP_SYS(madvise),
    SCMP_SYS(memfd_create),
    SCMP_SYS(mincore),
    SCMP_SYS(mlock2),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(msync),
    SCMP_SYS(munlock),
    SCMP_SYS(munmap),
    // calls on files; Landlock restricts the paths
    SCMP_SYS(access),
    SCMP_SYS(close),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(fadvise64),
    SCMP_SYS(fallocate),
    SCMP_SYS(fchmod),
    SCMP_SYS(fcntl),
    SCMP_SYS(fdatasync),
    SCMP_SYS(flock),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(fsync),
    SCMP_SYS(ftruncate),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(inotify_add_watch),
    SCMP_SYS(inotify_init1),
    SCMP_SYS(inotify_rm_watch),
    SCMP_SYS(linkat),
    SCMP_SYS(lseek),
    SCMP_SYS(lstat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(openat2),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(pwrite64),
    SCMP_SYS(pwritev),
    SCMP_SYS(read),
    SCMP_SYS(readahead),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(readv),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(stat),
    SCMP_SYS(statfs),
    SCMP_SYS(statx),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(utimensat),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    // existing sockets
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(getpeername),
    SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt),
    SCMP_SYS(listen),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(setsockopt),
    SCMP_SYS(shutdown),
    // waiting and time
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(eventfd2),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(nanosleep),
    SCMP_SYS(pipe2),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(pselect6),
    SCMP_SYS(select),
    SCMP_SYS(signalfd4),
    SCMP_SYS(time),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_gettime),
    SCMP_SYS(timerfd_settime),
    // calls for threads and signals of this process; arch_prctl enables the registers of the AMX
    // kernels
    SCMP_SYS(arch_prctl),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(futex),
    SCMP_SYS(getpid),
    SCMP_SYS(getpriority),
    SCMP_SYS(gettid),
    SCMP_SYS(membarrier),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_yield),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(sigaltstack),
    // calls that return information on this process and the machine; pidfd_open is used to detect
    // the end of a client's process
    SCMP_SYS(getcpu),
    SCMP_SYS(getegid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getppid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrusage),
    SCMP_SYS(getuid),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(sysinfo),
    SCMP_SYS(times),
    SCMP_SYS(umask),
    SCMP_SYS(uname),
});

// System calls that only sanitizer builds make. At the end of the process, LeakSanitizer clones a
// process that traces this process to find leaks. ThreadSanitizer queries the layout of its address
// space.
constexpr auto kAllowedForSanitizers = std::to_array<int>({
    SCMP_SYS(clone),
    SCMP_SYS(fork),
    SCMP_SYS(personality),
    SCMP_SYS(prctl),
    SCMP_SYS(ptrace),
    SCMP_SYS(getrlimit),
    SCMP_SYS(prlimit64),
    SCMP_SYS(wait4),
});

// A Filter is a libseccomp filter under construction, and keeps the first error of a call.
// libseccomp returns negative errno values.
class Filter {
 public:
  explicit Filter(scmp_filter_ctx context) : context_(context, seccomp_release) {
    if (context == nullptr) failure_ = -ENOMEM;
  }

  void Set(scmp_filter_attr attribute, std::uint32_t value) {
    if (failure_ == 0) failure_ = seccomp_attr_set(context_.get(), attribute, value);
  }
  template <class... Arguments>
  void Add(std::uint32_t action, int call, Arguments... arguments) {
    if (failure_ != 0) return;
    const std::array<scmp_arg_cmp, sizeof...(arguments)> compared = {arguments...};
    failure_ =
        seccomp_rule_add_array(context_.get(), action, call, sizeof...(arguments), compared.data());
  }
  void Allow(int call) { Add(SCMP_ACT_ALLOW, call); }
  void Load() {
    if (failure_ == 0) failure_ = seccomp_load(context_.get());
  }
  int failure() const { return failure_; }

 private:
  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  int failure_ = 0;
};

// The kernel reads only the lower 32 bits of an int argument, so the filter's rule compares only
// the lower 32 bits.
scmp_arg_cmp IntArgument(unsigned number, std::uint32_t value) {
  return {.arg = number, .op = SCMP_CMP_MASKED_EQ, .datum_a = 0xffffffffu, .datum_b = value};
}
scmp_arg_cmp NullArgument(unsigned number) {
  return {.arg = number, .op = SCMP_CMP_EQ, .datum_a = 0, .datum_b = 0};
}

void AllowWithArguments(Filter& filter) {
  // Creating threads is allowed, creating processes is not. The flags of clone3 lie in memory that
  // a filter cannot read, so clone3 fails with ENOSYS, and glibc calls clone instead.
  filter.Add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  filter.Add(
      SCMP_ACT_ALLOW, SCMP_SYS(clone),
      scmp_arg_cmp{
          .arg = 0, .op = SCMP_CMP_MASKED_EQ, .datum_a = CLONE_THREAD, .datum_b = CLONE_THREAD});
  // abort() signals a thread of this process with tgkill.
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill),
             IntArgument(0, static_cast<std::uint32_t>(::getpid())));
  // setpriority is allowed only for the calling thread.
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(setpriority), IntArgument(0, PRIO_PROCESS),
             IntArgument(1, 0));
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(sched_setaffinity), IntArgument(0, 0));
  // prlimit64 may only read the limits of this process.
  filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), IntArgument(0, 0), NullArgument(2));
  for (const std::uint32_t request : {FIONBIO, FIONREAD, TCGETS}) {
    filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), IntArgument(1, request));
  }
  for (const std::uint32_t option : {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA}) {
    filter.Add(SCMP_ACT_ALLOW, SCMP_SYS(prctl), IntArgument(0, option));
  }
}

}  // namespace

Status FilterSyscalls() {
  Filter filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  filter.Set(SCMP_FLTATR_CTL_TSYNC, 1);
  // This attribute makes the filter a binary search tree instead of a list, because kernels before
  // 5.11 run the filter at every system call.
  filter.Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  // A 32-bit or x32 system call ends the process, because such calls have other numbers, which the
  // filter's rules do not cover.
  filter.Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  for (const int call : kAllowed) filter.Allow(call);
  AllowWithArguments(filter);
  if (kIsSanitized) {
    for (const int call : kAllowedForSanitizers) filter.Allow(call);
  }
  filter.Load();
  if (filter.failure() == 0) return {};
  return Fail(Code::kUnsupported, "seccomp: ", std::generic_category().message(-filter.failure()));
}

}  // namespace kvd
