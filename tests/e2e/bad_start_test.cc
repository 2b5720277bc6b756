// Tests starts of the daemon that must fail: the exit status, the message, and that the daemon
// leaves no files. A full disk or a resource limit that is hit later only refuses a request and
// does not end the daemon.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/e2e/support/served_daemon.h"
#include "tests/support/edited_model.h"
#include "tests/support/tiny_model.h"

namespace kvd::bad_start_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<TokenId> kOneToken = {9};

class BadStartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-bad-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    ASSERT_EQ(::mkdir((root_ + "/run").c_str(), 0700), 0);
    model_ = test::TinyModelPath(test::TinyLlama());
  }
  void TearDown() override { fs::remove_all(root_); }

  // Runs kvd with `arguments` after the shell commands `before`, and checks that it ends with
  // `status` and a message that contains `words`. `arguments` may override the socket and the state
  // directory.
  void ExpectNoStart(const std::string& arguments, int status, const std::string& words,
                     const std::string& before = "") {
    SCOPED_TRACE(before + "kvd " + arguments);
    const std::string command = before + "exec timeout 60 " + test::KvdPath() + " --socket " +
                                root_ + "/run/x.sock --state-dir " + root_ + "/state -t 1 -c 512 " +
                                arguments + " 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
    const int ended = ::pclose(pipe);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == status) << "status " << ended;
    EXPECT_THAT(said, HasSubstr(words));
    EXPECT_THAT(said, HasSubstr("kvd: ")) << "in its own words";
    EXPECT_FALSE(fs::exists(root_ + "/run/x.sock")) << "its socket is left";
  }
  std::string WriteModel(const std::string& name, std::string_view bytes) {
    std::ofstream(root_ + "/" + name, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    return "-m " + root_ + "/" + name;
  }

  std::string root_;
  std::string model_;
};

TEST_F(BadStartTest, AFlagThatIsNoNumberExitsWithTwo) {
  for (const char* const bad : {"0", "-1", "5x", "''", "4294967297", "99999999999999999999999"})
    ExpectNoStart("-c " + std::string(bad), 2, "--cells");
  ExpectNoStart("--threads 257", 2, "--threads");
  ExpectNoStart("--reserve-share nan", 2, "--reserve-share");
  ExpectNoStart("--no-such-flag", 2, "--no-such-flag");
}

TEST_F(BadStartTest, UnusableDirectoriesAreNamed) {
  ExpectNoStart("--socket " + root_ + "/" + std::string(200, 'x'), 1, "socket path: ");
  const std::string state = root_ + "/other";
  const auto expect = [&](const std::string& words) {
    ExpectNoStart("--state-dir " + state, 1, "state directory " + state + ": " + words);
  };
  ASSERT_EQ(::mkdir(state.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(state.c_str(), 0750), 0);
  expect("mode 0750 lets others in");
  ASSERT_EQ(::chmod(state.c_str(), 0700), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(state.c_str(), 65534, 65534), 0);
    expect("belongs to uid 65534");
  } else {
    ExpectNoStart("--state-dir /usr", 1, "state directory /usr: belongs to uid 0");
  }
  ASSERT_EQ(::rmdir(state.c_str()), 0);
  ASSERT_EQ(::symlink(root_.c_str(), state.c_str()), 0);
  expect("is not a directory, or is a symbolic link");
  ASSERT_EQ(::unlink(state.c_str()), 0);
  std::ofstream(state) << "a file";
  expect("is not a directory, or is a symbolic link");
  // Even root cannot create a file in /proc.
  ExpectNoStart("--state-dir /proc/kvd-state", 1, "state directory /proc/kvd-state: ");
  ExpectNoStart("--socket /proc/kvd/x.sock", 1, "/proc/kvd");
}

TEST_F(BadStartTest, FilesThatAreNotModelsAreNamed) {
  std::ifstream file(model_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(good.size(), 10'000u);
  ExpectNoStart("-m " + root_ + "/missing.gguf", 1, "missing.gguf: no such file");
  ExpectNoStart("-m " + root_, 1, root_ + ": not a regular file");
  ExpectNoStart(WriteModel("empty.gguf", ""), 1, "empty.gguf");
  ExpectNoStart(WriteModel("zeros.gguf", std::string(4096, '\0')), 1, "zeros.gguf");
  for (const std::size_t bytes :
       {std::size_t{3}, std::size_t{23}, std::size_t{200}, good.size() / 2, good.size() - 1}) {
    ExpectNoStart(WriteModel("cut.gguf", good.substr(0, bytes)), 1, "cut.gguf");
  }
  // The replaced name has the same length, so that the rest of the file stays valid.
  std::string other = good;
  const std::string key = "general.architecture";
  const std::size_t at = other.find("llama", other.find(key));
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 5, "lxama");
  ExpectNoStart(WriteModel("other.gguf", other), 1, "general.architecture: ");
  ExpectNoStart(WriteModel("other.gguf", other), 1, "lxama");
  ASSERT_GT(::setenv("KVD_KERNELS", "abacus", 1), -1);
  ExpectNoStart("-m " + model_, 1, "'abacus'");
  ::unsetenv("KVD_KERNELS");
  ExpectNoStart("--kernels abacus", 1, "'abacus'");
}

TEST_F(BadStartTest, AFileWithoutWeightsIsNamed) {
  const std::string lacking = test::EditedModelPath(model_, [](test::EditedTensors& tensors) {
    (void)test::TakeTensor(tensors, "token_embd.weight");
  });
  ExpectNoStart("-m " + lacking, 1, lacking + ": tensor token_embd.weight: missing from the file");
}

TEST_F(BadStartTest, AFileSizeLimitIsAnErrorAndEndsNoProcess) {
  // The limit is 8 units of 512 bytes: enough for the lock file and the messages, but not for pool
  // and meta.
  ExpectNoStart("-m " + model_, 1, "File too large", "ulimit -f 8; ");
}

// Mounts a tmpfs that only this process and its children see.
class FullDiskTest : public BadStartTest {
 protected:
  void SetUp() override {
    BadStartTest::SetUp();
    disk_ = root_ + "/disk";
    ASSERT_EQ(::mkdir(disk_.c_str(), 0700), 0);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "needs root and the right to mount";
    }
  }
  void TearDown() override {
    (void)::umount2(disk_.c_str(), MNT_DETACH);
    BadStartTest::TearDown();
  }
  void Mount(const std::string& options, unsigned long flags = 0) {
    ASSERT_EQ(::mount("none", disk_.c_str(), "tmpfs", flags, (options + ",mode=0700").c_str()), 0);
  }
  std::string disk_;
};

TEST_F(FullDiskTest, ADiskTooSmallOrReadOnlyIsNamedAtTheStart) {
  Mount("size=64k");
  ExpectNoStart("--state-dir " + disk_ + "/state", 1, "No space left on device");
  ASSERT_EQ(::umount2(disk_.c_str(), MNT_DETACH), 0);
  Mount("size=1m", MS_RDONLY);
  ExpectNoStart("--state-dir " + disk_ + "/state", 1, "Read-only file system");
}

TEST_F(FullDiskTest, AFullDiskRefusesTheRequestAndTheDaemonLives) {
  Mount("size=64m");
  auto daemon = DaemonProcess::Start(
      {.kvd_path = test::KvdPath(),
       .arguments = {"--state-dir", disk_ + "/state", "-m", model_, "-c", "2048", "-t", "1"}});
  ASSERT_TRUE(daemon) << daemon.error().message;
  const Client client = Client::Connect({.socket_path = daemon->socket_path()}).value();
  const Sequence sequence = client.NewSequence().value();
  {
    std::ofstream filler(disk_ + "/filler", std::ios::binary);
    const std::string part(1 << 20, 'f');
    while (filler.write(part.data(), std::ssize(part)).flush()) continue;
  }
  const auto refused = sequence.Decode(kOneToken, Pos{0});
  ASSERT_FALSE(refused) << "on a full disk";
  EXPECT_EQ(CodeName(refused.error().code), "no_space");
  EXPECT_THAT(refused.error().message, HasSubstr("pool: "));
  EXPECT_THAT(refused.error().message, HasSubstr("No space left on device"));
  EXPECT_EQ(sequence.Query()->cell_count, 0u);
  EXPECT_EQ(client.Info()->live_cells, 0u);
  fs::remove(disk_ + "/filler");
  const auto done = sequence.Decode(kOneToken, Pos{0});
  EXPECT_TRUE(done) << done.error().message;
}

class LimitedDaemonTest : public test::ServedDaemonTest {};

TEST_F(LimitedDaemonTest, ASessionWithoutSegmentsIsRefusedAndOthersAreServed) {
  const Client client = Connect();
  rlimit before{};
  ASSERT_EQ(::prlimit(daemon_->pid(), RLIMIT_FSIZE, nullptr, &before), 0);
  rlimit small = before;
  small.rlim_cur = 64 << 10;
  ASSERT_EQ(::prlimit(daemon_->pid(), RLIMIT_FSIZE, &small, nullptr), 0);
  const auto refused = Client::Connect({.socket_path = socket_path()});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("File too large"));
  EXPECT_TRUE(client.Ping(100)) << "who is there is served";
  ASSERT_EQ(::prlimit(daemon_->pid(), RLIMIT_FSIZE, &before, nullptr), 0);
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd::bad_start_test
