// Another user has created the directories that a daemon without a runtime directory would use:
// /dev/shm/kvd-UID, and kvd-UID and kvd-UID-state in the temporary directory. A daemon starts
// although the directories of its default names belong to another user, the daemon's clients find
// the daemon, and `kvd --forget` succeeds. The daemon runs under an unused uid, so that its files
// in /dev/shm and elsewhere do not disturb other processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd::taken_places_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kOther = 12345;

class TakenPlacesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to run a process of another uid";
    uid_ = 100'000 + static_cast<uid_t>(::getpid());
    ASSERT_EQ(::chmod(folder_.path().c_str(), 01777), 0);
    Take("/dev/shm/kvd-" + std::to_string(uid_));
    Take(folder_.path() / ("kvd-" + std::to_string(uid_)));
    Take(folder_.path() / ("kvd-" + std::to_string(uid_) + "-state"));
  }
  void TearDown() override {
    if (uid_ == 0) return;
    for (const auto& entry : fs::directory_iterator("/dev/shm")) {
      const std::string stem = "kvd-" + std::to_string(uid_);
      const std::string name = entry.path().filename();
      if (name == stem || name.starts_with(stem + "-")) fs::remove_all(entry.path());
    }
  }

  static void Take(const fs::path& path) {
    fs::create_directories(path / "default");
    std::ofstream(path / "default/meta") << "x";
    for (const fs::path& made : {path, path / "default", path / "default/meta"}) {
      ASSERT_EQ(::chmod(made.c_str(), 0700), 0);
      ASSERT_EQ(::chown(made.c_str(), kOther, kOther), 0);
    }
  }
  // Starts kvd or kvctl as another uid and without a runtime directory. The program's output is
  // written to log_path().
  pid_t Launch(const std::string& program, std::vector<std::string> arguments) const {
    // The program is executed by descriptor, because the folders that contain the program may be
    // closed to the other uid.
    const UniqueFd binary(::open((BinaryFolder() + "/" + program).c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd log(::open(log_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    arguments.insert(arguments.begin(), program);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    std::string temporary = "TMPDIR=" + folder_.path().string();
    char* environment[] = {temporary.data(), nullptr};
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    if (::setgid(uid_) != 0 || ::setuid(uid_) != 0) ::_exit(126);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of uid clears it
    ::fexecve(binary.get(), pointers.data(), environment);
    ::_exit(127);
  }
  static int StatusOf(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
  }
  // Waits until the daemon logs its start or ends. Returns true if it has started.
  bool ServesSoon(pid_t daemon) const {
    for (;;) {
      if (log_text().find(" start pid=") != std::string::npos) return true;
      int status = 0;
      if (::waitpid(daemon, &status, WNOHANG) == daemon) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::string log_path() const { return folder_.path() / "log"; }
  std::string log_text() const {
    std::ifstream file(log_path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::TemporaryFolder folder_;
  uid_t uid_ = 0;
};

TEST_F(TakenPlacesTest, WithTakenDirectoriesTheDaemonStartsAndClientsFindIt) {
  const pid_t daemon = Launch("kvd", {"-c", "512", "-t", "1"});
  ASSERT_TRUE(ServesSoon(daemon)) << log_text();
  const std::string log = log_text();
  EXPECT_THAT(log, HasSubstr("state_directory_passed_over"));
  EXPECT_THAT(log, HasSubstr("belongs to uid 12345"));
  EXPECT_EQ(StatusOf(Launch("kvctl", {"run", "-n", "0", "--keep", "kept", "The kite is green."})),
            0)
      << log_text();
  ::kill(daemon, SIGTERM);
  EXPECT_EQ(StatusOf(daemon), 0);

  EXPECT_EQ(StatusOf(Launch("kvd", {"--forget"})), 0) << log_text();
  EXPECT_THAT(log_text(), HasSubstr("removed the state in "));
  EXPECT_THAT(log_text(), HasSubstr("left alone: "));
  EXPECT_TRUE(fs::exists("/dev/shm/kvd-" + std::to_string(uid_) + "/default/meta"));
}

}  // namespace
}  // namespace kvd::taken_places_test
