// Each test starts a child process that enters the sandbox and then tries system calls. The tests
// need child processes because a process cannot leave the sandbox.
#include "daemon/process/sandbox.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <sstream>
#include <thread>

#include "base/sanitizers.h"
#include "engine/saved_state/state_file.h"

namespace kvd {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Maps the name of each tried operation to its errno; 0: the operation succeeded.
using Tried = std::map<std::string, int>;

// Returns the names of the mechanisms of the sandbox that are not in force. Clang's ThreadSanitizer
// starts a thread before the sandbox is entered; in builds with it, the notice about earlier
// threads is not counted.
std::vector<std::string> MissingOf(const Sandbox& sandbox) {
  std::vector<std::string> missing = sandbox.missing;
#if KVD_THREAD_SANITIZER
  std::erase_if(missing, [](const std::string& one) {
    return one.find("threads began before") != std::string::npos;
  });
#endif
  return missing;
}

// Returns errno if `result` is the negative result of a system call, otherwise 0.
int ErrnoOf(long result) { return result < 0 ? errno : 0; }

class SandboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-sandbox-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    for (const char* const directory : {"data", "runtime", "parts", "foreign", "places"}) {
      ASSERT_EQ(::mkdir(At(directory).c_str(), 0700), 0);
      std::ofstream(At(directory) + "/file") << "text";
    }
    std::ofstream(At("model")) << "text";
    if (RunInChild([](Tried& tried) { tried["abi"] = EnterSandbox({}).landlock_abi; })["abi"] == 0)
      GTEST_SKIP() << "the machine lacks Landlock";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string At(const std::string& name) const { return root_ + "/" + name; }
  SandboxPaths Paths() const {
    return {.data = {At("data")},
            .runtime = {At("runtime")},
            .emptied = {At("places")},
            .read_only = {At("model"), At("parts"), At("missing")}};
  }

  // Runs `body` in a child process with one thread and returns the operations that it recorded.
  static Tried RunInChild(const std::function<void(Tried&)>& body) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Tried tried;
      body(tried);
      for (const auto& [what, number] : tried) {
        const std::string line = what + " " + std::to_string(number) + "\n";
        (void)!::write(ends[1], line.data(), line.size());
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char part[512];
    for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;) {
      text.append(part, static_cast<std::size_t>(got));
    }
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    std::istringstream lines(text);
    Tried tried;
    std::string what;
    for (int number = 0; lines >> what >> number;) tried[what] = number;
    return tried;
  }
  Tried RunInSandbox(const std::function<void(Tried&)>& body) const {
    Tried tried = RunInChild([&](Tried& told) {
      const Sandbox sandbox = EnterSandbox(Paths());
      told["abi"] = sandbox.landlock_abi;
      told["filters"] = sandbox.filters_syscalls;
      body(told);
    });
    EXPECT_GE(tried["abi"], 1);
    EXPECT_EQ(tried["filters"], 1);
    tried.erase("abi");
    tried.erase("filters");
    return tried;
  }
  static int Open(const std::string& path, int flags) {
    const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    const int error = ErrnoOf(file);
    if (file >= 0) ::close(file);
    return error;
  }

  std::string root_;
};

TEST_F(SandboxTest, WhereOnlyEmptyDirectoriesMayBeRemovedNothingElseCanBe) {
  ASSERT_EQ(::mkdir(At("places/empty").c_str(), 0700), 0);
  Tried tried = RunInSandbox([this](Tried& told) {
    told["empty"] = ErrnoOf(::unlinkat(AT_FDCWD, At("places/empty").c_str(), AT_REMOVEDIR));
    told["file"] = ErrnoOf(::unlink(At("places/file").c_str()));
    told["read"] = Open(At("places/file"), O_RDONLY);
    told["made"] = Open(At("places/new"), O_WRONLY | O_CREAT);
  });
  EXPECT_EQ(tried["empty"], 0);
  EXPECT_EQ(tried["file"], EACCES);
  EXPECT_EQ(tried["read"], EACCES);
  EXPECT_EQ(tried["made"], EACCES);
}

TEST_F(SandboxTest, TemporaryFilesOfAKilledDaemonAreRemoved) {
  // No process has the id 2147483647, because it exceeds the kernel's limit (2^22).
  const std::string stale = At("data") + "/.kvd-2147483647-1";
  std::ofstream(stale) << "text";
  const Tried tried = RunInSandbox([this](Tried& told) {
    const int folder = ::open(At("data").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    told["removed"] = RemoveStaleTemporaries(folder).has_value() ? 1 : 0;
  });
  EXPECT_EQ(tried.at("removed"), 1);
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(SandboxTest, UnlistedFilesCannotBeOpenedCreatedOrRemoved) {
  const Tried tried = RunInSandbox([this](Tried& told) {
    told["read_foreign"] = Open(At("foreign/file"), O_RDONLY);
    told["write_foreign"] = Open(At("foreign/file"), O_WRONLY);
    told["make_foreign"] = Open(At("foreign/new"), O_WRONLY | O_CREAT);
    told["list_foreign"] = Open(At("foreign"), O_RDONLY | O_DIRECTORY);
    told["remove_foreign"] = ErrnoOf(::unlink(At("foreign/file").c_str()));
    told["system_file"] = Open("/etc/passwd", O_RDONLY);
    told["device"] = Open("/dev/null", O_RDWR);
    told["write_model"] = Open(At("model"), O_WRONLY);
    told["write_part"] = Open(At("parts/file"), O_RDWR);
    told["truncate_part"] = Open(At("parts/file"), O_RDONLY | O_TRUNC);
    told["make_part"] = Open(At("parts/new"), O_WRONLY | O_CREAT);
    told["remove_part"] = ErrnoOf(::unlink(At("parts/file").c_str()));
    told["read_runtime"] = Open(At("runtime/file"), O_RDONLY);
    told["make_runtime"] = Open(At("runtime/new"), O_WRONLY | O_CREAT);
    told["write_proc"] = Open("/proc/self/comm", O_WRONLY);
  });
  EXPECT_EQ(tried.size(), 15u);
  for (const auto& [what, error] : tried) EXPECT_EQ(error, EACCES) << what;
}

TEST_F(SandboxTest, ListedFilesCanBeUsed) {
  const Tried tried = RunInSandbox([this](Tried& told) {
    told["read_model"] = Open(At("model"), O_RDONLY);
    told["read_part"] = Open(At("parts/file"), O_RDONLY);
    told["list_parts"] = Open(At("parts"), O_RDONLY | O_DIRECTORY);
    told["read_proc"] = Open("/proc/self/status", O_RDONLY);
    told["read_proc_of_another"] = Open("/proc/1/stat", O_RDONLY);
    told["list_descriptors"] = Open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    told["read_sys"] = Open("/sys/devices/system/cpu/online", O_RDONLY);
    told["make"] = Open(At("data/new"), O_RDWR | O_CREAT | O_EXCL);
    told["rename"] = ErrnoOf(::rename(At("data/new").c_str(), At("data/newer").c_str()));
    told["link"] = ErrnoOf(
        ::linkat(AT_FDCWD, At("data/newer").c_str(), AT_FDCWD, At("data/second").c_str(), 0));
    told["truncate"] = Open(At("data/newer"), O_WRONLY | O_TRUNC);
    told["remove"] = ErrnoOf(::unlink(At("data/newer").c_str()));
    told["make_folder"] = ErrnoOf(::mkdir(At("data/folder").c_str(), 0700));
    told["make_in_folder"] = Open(At("data/folder/new"), O_WRONLY | O_CREAT);
    told["remove_runtime"] = ErrnoOf(::unlink(At("runtime/file").c_str()));
  });
  EXPECT_EQ(tried.size(), 15u);
  for (const auto& [what, error] : tried) EXPECT_EQ(error, 0) << what;
}

TEST_F(SandboxTest, NewSocketsProgramsAndSignalsToOtherProcessesAreRefused) {
  const Tried tried = RunInSandbox([](Tried& told) {
    told["tcp"] = ErrnoOf(::socket(AF_INET, SOCK_STREAM, 0));
    told["tcp6"] = ErrnoOf(::socket(AF_INET6, SOCK_STREAM, 0));
    told["udp"] = ErrnoOf(::socket(AF_INET, SOCK_DGRAM, 0));
    told["netlink"] = ErrnoOf(::socket(AF_NETLINK, SOCK_RAW, 0));
    told["unix"] = ErrnoOf(::socket(AF_UNIX, SOCK_STREAM, 0));
    char program[] = "/bin/true";
    char* arguments[] = {program, nullptr};
    told["execve"] = ErrnoOf(::execve(program, arguments, nullptr));
    told["execveat"] = ErrnoOf(::syscall(SYS_execveat, AT_FDCWD, program, arguments, nullptr, 0));
    told["kill"] = ErrnoOf(::kill(::getppid(), 0));
    told["kill_own_group"] = ErrnoOf(::kill(0, 0));
    told["process_vm_readv"] =
        ErrnoOf(::syscall(SYS_process_vm_readv, ::getppid(), nullptr, 0, nullptr, 0, 0));
    told["pidfd_getfd"] = ErrnoOf(::syscall(SYS_pidfd_getfd, 0, 0, 0));
    told["bpf"] = ErrnoOf(::syscall(SYS_bpf, 0, nullptr, 0));
    told["io_uring_setup"] = ErrnoOf(::syscall(SYS_io_uring_setup, 1, nullptr));
    told["userfaultfd"] = ErrnoOf(::syscall(SYS_userfaultfd, 0));
    told["perf_event_open"] = ErrnoOf(::syscall(SYS_perf_event_open, nullptr, 0, 0, 0, 0));
    told["unshare"] = ErrnoOf(::syscall(SYS_unshare, 0));
    told["setuid"] = ErrnoOf(::syscall(SYS_setuid, ::getuid()));
    told["chroot"] = ErrnoOf(::chroot("/"));
    told["priority_of_another"] = ErrnoOf(::setpriority(PRIO_PROCESS, ::getppid(), 5));
    const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
    told["limit_of_another"] =
        ErrnoOf(::syscall(SYS_prlimit64, ::getppid(), RLIMIT_NOFILE, nullptr, nullptr));
    if (kIsSanitized) return;
    told["fork"] = ErrnoOf(::fork());
    told["vfork"] = ErrnoOf(::syscall(SYS_fork));
    told["ptrace"] = ErrnoOf(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
    told["set_limit"] = ErrnoOf(::setrlimit(RLIMIT_NOFILE, &limit));
    told["dumpable"] = ErrnoOf(::prctl(PR_SET_DUMPABLE, 1));
  });
  EXPECT_EQ(tried.size(), kIsSanitized ? 20u : 25u);
  for (const auto& [what, error] : tried) {
    if (kIsSanitized && what == "limit_of_another") continue;
    EXPECT_EQ(error, EPERM) << what;
  }
}

TEST_F(SandboxTest, ThreadsMemoryAndExistingSocketsCanBeUsed) {
  const Tried tried = RunInSandbox([](Tried& told) {
    int from_thread = -1;
    std::thread([&] { from_thread = ErrnoOf(::socket(AF_INET, SOCK_STREAM, 0)); }).join();
    told["thread_is_restricted"] = from_thread == EPERM ? 0 : 1;
    const int memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    told["memfd"] = ErrnoOf(memory);
    told["ftruncate"] = ErrnoOf(::ftruncate(memory, 4096));
    told["mmap"] = ErrnoOf(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) == MAP_FAILED ? -1
                                                                                           : 0);
    told["reopened"] = Open("/proc/self/fd/" + std::to_string(memory), O_RDONLY);
    const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0u));
    told["pidfd_open"] = ErrnoOf(self);
    told["own_priority"] = ErrnoOf(::setpriority(PRIO_PROCESS, 0, 5));
  });
  EXPECT_EQ(tried.size(), 7u);
  for (const auto& [what, error] : tried) EXPECT_EQ(error, 0) << what;
}

TEST_F(SandboxTest, ExistingSocketsCannotConnectToATcpPort) {
  Tried tried = RunInChild([](Tried& told) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(9);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // This test uses only Landlock: the system-call filter would refuse every connect and bind.
    told["abi"] = RestrictFiles({}).value_or(0);
    told["connect"] = ErrnoOf(::connect(socket, generic, sizeof address));
    told["bind"] = ErrnoOf(::bind(socket, generic, sizeof address));
  });
  if (tried["abi"] < 4) GTEST_SKIP() << "the machine lacks Landlock's rules of network ports";
  EXPECT_EQ(tried["connect"], EACCES);
  EXPECT_EQ(tried["bind"], EACCES);
}

TEST_F(SandboxTest, ACallThroughTheTableOf32BitProgramsEndsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    (void)EnterSandbox(Paths());
    long result = 20;  // getpid of i386
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  // The signal is SIGSEGV on a kernel without support for 32-bit programs.
  EXPECT_TRUE(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV))
      << status;
}

// Makes the given system calls fail with `error`, as on a kernel without them, by a seccomp filter
// that is installed before the sandbox.
void RefuseCalls(std::initializer_list<int> calls, std::uint32_t error) {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  for (const int call : calls) {
    EXPECT_EQ(seccomp_rule_add(context, SCMP_ACT_ERRNO(error), call, 0), 0);
  }
  EXPECT_EQ(seccomp_load(context), 0);
  seccomp_release(context);
}

TEST_F(SandboxTest, WithoutLandlockTheOtherRestrictionsHoldAndTheLogSaysSo) {
  for (const std::uint32_t error : {ENOSYS, EOPNOTSUPP}) {
    const Tried tried = RunInChild([&](Tried& told) {
      RefuseCalls({SCMP_SYS(landlock_create_ruleset)}, error);
      const Sandbox sandbox = EnterSandbox(Paths());
      told["text"] = sandbox.text() == "landlock=off seccomp=on" ? 0 : 1;
      const std::vector<std::string> missing = MissingOf(sandbox);
      told["missing"] = missing.size() == 1 && missing[0].find("landlock: ") == 0 ? 0 : 1;
      told["foreign"] = Open(At("foreign/file"), O_RDONLY);
      told["tcp"] = ErrnoOf(::socket(AF_INET, SOCK_STREAM, 0)) == EPERM ? 0 : 1;
    });
    EXPECT_EQ(tried.size(), 4u);
    for (const auto& [what, number] : tried) EXPECT_EQ(number, 0) << what;
  }
}

TEST_F(SandboxTest, ARuleThatTheKernelRefusesLeavesLandlockOffAndTheLogSaysSo) {
  for (const int call : {SCMP_SYS(landlock_add_rule), SCMP_SYS(landlock_restrict_self)}) {
    const Tried tried = RunInChild([&](Tried& told) {
      RefuseCalls({call}, ENOMEM);
      const Sandbox sandbox = EnterSandbox(Paths());
      told["text"] = sandbox.text() == "landlock=off seccomp=on" ? 0 : 1;
      told["missing"] = MissingOf(sandbox).size() == 1 ? 0 : 1;
      told["foreign"] = Open(At("foreign/file"), O_RDONLY);
    });
    EXPECT_EQ(tried.size(), 3u);
    for (const auto& [what, number] : tried) EXPECT_EQ(number, 0) << what;
  }
}

TEST_F(SandboxTest, WithoutSeccompTheOtherRestrictionsHoldAndTheLogSaysSo) {
  const Tried tried = RunInChild([&](Tried& told) {
    RefuseCalls({SCMP_SYS(seccomp)}, ENOSYS);
    const Sandbox sandbox = EnterSandbox(Paths());
    told["off"] = sandbox.text().find(" seccomp=off") != std::string::npos ? 0 : 1;
    const std::vector<std::string> missing = MissingOf(sandbox);
    told["missing"] = missing.size() == 1 && missing[0].find("seccomp: ") == 0;
    told["foreign"] = Open(At("foreign/file"), O_RDONLY);
  });
  EXPECT_EQ(tried.at("off"), 0);
  EXPECT_EQ(tried.at("missing"), 1);
  EXPECT_EQ(tried.at("foreign"), EACCES);
}

TEST_F(SandboxTest, WithoutNoNewPrivilegesNothingIsRestrictedAndTheLogSaysSo) {
  const Tried tried = RunInChild([&](Tried& told) {
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
    EXPECT_EQ(seccomp_attr_set(context, SCMP_FLTATR_CTL_NNP, 0), 0);
    const scmp_arg_cmp asks_for_it = {
        .arg = 0, .op = SCMP_CMP_EQ, .datum_a = PR_SET_NO_NEW_PRIVS, .datum_b = 0};
    EXPECT_EQ(
        seccomp_rule_add_array(context, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1, &asks_for_it),
        0);
    told["loaded"] = seccomp_load(context);
    seccomp_release(context);
    const Sandbox sandbox = EnterSandbox(Paths());
    told["text"] = sandbox.text() == "landlock=off seccomp=off" ? 0 : 1;
    told["missing"] = sandbox.missing.size() == 1 ? 0 : 1;
  });
  if (tried.at("loaded") != 0) GTEST_SKIP() << "needs root to load a filter with privileges";
  EXPECT_EQ(tried.at("text"), 0);
  EXPECT_EQ(tried.at("missing"), 0);
}

TEST_F(SandboxTest, ThreadsStartedBeforeTheSandboxAreReported) {
  const Tried tried = RunInChild([&](Tried& told) {
    std::atomic<bool> ends{false};
    std::thread early([&] {
      while (!ends) std::this_thread::yield();
    });
    const Sandbox sandbox = EnterSandbox(Paths());
    told["named"] = 0;
    for (const std::string& missing : sandbox.missing) {
      told["named"] += missing.find("threads began before") != std::string::npos;
    }
    ends = true;
    early.join();
  });
  EXPECT_EQ(tried.at("named"), 1);
}

TEST(LandlockAbiTest, RightsUnknownToTheKernelAreLeftOut) {
  EXPECT_EQ(AccessOfAbi(0).files, 0u);
  EXPECT_EQ(AccessOfAbi(1).files, 0x1fffu);
  EXPECT_EQ(AccessOfAbi(2).files, 0x3fffu);
  EXPECT_EQ(AccessOfAbi(3).files, 0x7fffu);
  EXPECT_EQ(AccessOfAbi(4).files, 0x7fffu);
  EXPECT_EQ(AccessOfAbi(5).files, 0xffffu);
  EXPECT_EQ(AccessOfAbi(3).network, 0u);
  EXPECT_EQ(AccessOfAbi(4).network, 3u);
  EXPECT_EQ(AccessOfAbi(5).scopes, 0u);
  EXPECT_EQ(AccessOfAbi(6).scopes, 3u);
  EXPECT_EQ(AccessOfAbi(kLandlockAbiMax).files, 0xffffu);
}

TEST(LandlockAbiTest, OperationsThatAnOlderKernelCannotRestrictAreListed) {
  EXPECT_EQ(GapsOfAbi(1).size(), 4u);
  EXPECT_EQ(GapsOfAbi(3).size(), 3u);
  EXPECT_EQ(GapsOfAbi(4).size(), 2u);
  EXPECT_THAT(GapsOfAbi(5), Contains(HasSubstr("signals")));
  EXPECT_THAT(GapsOfAbi(kLandlockAbiMax), IsEmpty());
}

}  // namespace
}  // namespace kvd
