// Tests the sandbox of a real daemon, as the kernel reports it in /proc.
// tests/daemon/process/sandbox_test.cc tests the operations that the sandbox refuses; the other
// end-to-end tests show that it refuses nothing that the daemon needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/sanitizers.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the number that follows "FIELD:" in a status file of /proc; -1: there is none.
long StatusNumber(const std::filesystem::path& status, const std::string& field) {
  std::ifstream file(status);
  for (std::string name; file >> name;) {
    long number = -1;
    if (name == field + ":") return file >> number ? number : -1;
    file.ignore(1 << 20, '\n');
  }
  return -1;
}

// Returns {number of seccomp filters, no_new_privs} for every thread of the process.
std::vector<std::pair<long, long>> Restrictions(pid_t process) {
  std::vector<std::pair<long, long>> found;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    found.emplace_back(StatusNumber(task.path() / "status", "Seccomp_filters"),
                       StatusNumber(task.path() / "status", "NoNewPrivs"));
  }
  return found;
}

const long kOwnFilters = StatusNumber("/proc/self/status", "Seccomp_filters");

class SandboxedDaemonTest : public test::ServedDaemonTest {
 protected:
  explicit SandboxedDaemonTest(const std::vector<std::string>& more = {})
      : ServedDaemonTest(With(more)) {}
  static std::vector<std::string> With(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"-t", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(SandboxedDaemonTest, EveryThreadHasOneMoreFilterThanItsParent) {
  ASSERT_GE(kOwnFilters, 0) << "/proc tells of no filters";
  ExpectServesOthers();
  const auto threads = Restrictions(daemon_->pid());
  EXPECT_GE(threads.size(), 5u) << "engine, compute, io, workers, files";
  for (const auto& [filters, no_new_privileges] : threads) {
    EXPECT_EQ(filters, kOwnFilters + 1);
    EXPECT_EQ(no_new_privileges, 1);
  }
  EXPECT_THAT(daemon_->log_text(), HasSubstr(" sandbox landlock=abi"));
  EXPECT_THAT(daemon_->log_text(), HasSubstr(" seccomp=on"));
#if !KVD_THREAD_SANITIZER  // ThreadSanitizer starts a thread before the sandbox is entered
  EXPECT_THAT(daemon_->log_text(), Not(HasSubstr("threads began before")));
#endif
}

class UnboundDaemonTest : public SandboxedDaemonTest {
 protected:
  UnboundDaemonTest() : SandboxedDaemonTest({"--no-sandbox"}) {}
};

TEST_F(UnboundDaemonTest, WithoutASandboxNoThreadHasMoreFiltersThanItsParent) {
  ExpectServesOthers();
  const auto threads = Restrictions(daemon_->pid());
  EXPECT_GE(threads.size(), 5u);
  for (const auto& [filters, no_new_privileges] : threads) EXPECT_EQ(filters, kOwnFilters);
  EXPECT_THAT(daemon_->log_text(),
              HasSubstr("sandbox landlock=off seccomp=off reason=\"--no-sandbox\""));
}

// Runs `body` in a child process and returns its exit status. Restrictions that `body` sets also
// apply to the processes that the child starts.
int InChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

TEST(RefusedSandboxTest, WithoutLandlockAndSeccompTheDaemonServesAndSaysSo) {
  EXPECT_EQ(InChild([] {
              scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
              for (const int call : {SCMP_SYS(landlock_create_ruleset), SCMP_SYS(seccomp)}) {
                if (seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), call, 0) != 0) return 1;
              }
              if (seccomp_load(context) != 0) return 2;
              seccomp_release(context);
              auto daemon = DaemonProcess::Start(
                  {.kvd_path = test::KvdPath(), .arguments = {"-c", "512", "-t", "1"}});
              if (!daemon) return 3;
              const auto client = Client::Connect({.socket_path = daemon->socket_path()});
              if (!client || !client->NewSequence()) return 4;
              const std::string log = daemon->log_text();
              const auto says = [&log](const char* words) {
                return log.find(words) != std::string::npos;
              };
              if (!says("sandbox landlock=off seccomp=off")) return 5;
              if (!says("sandbox_incomplete not restricted: \"landlock: not in this kernel"))
                return 6;
              if (!says("sandbox_incomplete not restricted: \"seccomp: ")) return 7;
              return daemon->Stop() ? 0 : 8;
            }),
            0);
}

// The daemon reaches its files in the sandbox also through links and relative paths.
TEST(SandboxedPathsTest, ALinkToTheModelAndRelativePathsWork) {
  const test::TemporaryFolder folder;
  const std::string model =
      std::filesystem::absolute("models/notebook-1m-hybrid-q8_0.gguf").string();
  std::filesystem::create_symlink(model, folder.path() / "link.gguf");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  auto daemon = DaemonProcess::Start(
      {.kvd_path = test::KvdPath(),
       .arguments = {"-c", "512", "-t", "1", "-m", "link.gguf", "--store", "store", "--cache-dir",
                     "cache", "--state-dir", "state"}});
  std::filesystem::current_path(before);
  ASSERT_TRUE(daemon) << daemon.error().message;
  const auto client = Client::Connect({.socket_path = daemon->socket_path()});
  ASSERT_TRUE(client) << client.error().message;
  auto sequence = client->NewSequence();
  ASSERT_TRUE(sequence) << sequence.error().message;
  EXPECT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  const auto stopped = daemon->Stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(std::filesystem::exists(daemon->socket_path())) << "removed at the end";
}

}  // namespace
}  // namespace kvd
