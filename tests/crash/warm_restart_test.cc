// Starts a daemon with the state directory of an earlier one: warm starts, cold starts with their
// logged reasons, and the removal of the state by --forget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/e2e/support/served_daemon.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WarmRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = Arguments()});
    ASSERT_TRUE(started) << started.error().message;
    daemon_.emplace(std::move(*started));
    Client client = Connect();
    auto sequence = client.NewSequence();
    ASSERT_TRUE(sequence);
    tokens_ = test::RandomTokens(1, 50, 90);
    ASSERT_TRUE(sequence->Decode(tokens_, Pos{0}));
    ASSERT_TRUE(sequence->Publish("kept"));
  }
  static std::vector<std::string> Arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "-m", test::TinyModelPath(test::TinyLlama()), "-c", "1024", "-t", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Client Connect() {
    auto client = Client::Connect({.socket_path = daemon_->socket_path()});
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  fs::path State(const char* file) const { return fs::path(daemon_->folder()) / "state" / file; }
  void StartAgain(const std::vector<std::string>& more = {}) {
    const Status started = daemon_->StartAgain(Arguments(more));
    ASSERT_TRUE(started) << started.error().message;
  }
  void ExpectKept() {
    const auto fork = Connect().AttachSnapshot("kept");
    ASSERT_TRUE(fork) << fork.error().message;
    const auto found = fork->client().ReadTokens(fork->handle());
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) EXPECT_EQ((*found)[i].token, tokens_[i]);
  }
  void ExpectGone() { EXPECT_EQ(Connect().AttachSnapshot("kept").error().code, Code::kNotFound); }
  // Runs kvd --forget on the daemon's state directory and returns the output.
  std::string Forget() const {
    const std::string command =
        test::KvdPath() + " --forget --state-dir " + daemon_->folder() + "/state 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
    ::pclose(pipe);
    return said;
  }

  std::optional<DaemonProcess> daemon_;
  std::vector<TokenId> tokens_;
};

TEST_F(WarmRestartTest, SigtermKeepsTheStateAndForgetRemovesIt) {
  EXPECT_THAT(Forget(), HasSubstr("in use by another kvd")) << "while the daemon runs";
  StartAgain();
  EXPECT_THAT(daemon_->log_text(), HasSubstr("warm_start"));
  EXPECT_THAT(daemon_->log_text(), HasSubstr("not_checked"));
  ExpectKept();
  ASSERT_TRUE(daemon_->Stop());
  EXPECT_THAT(Forget(), HasSubstr("removed the state in"));
  EXPECT_FALSE(fs::exists(State("pool")));
  EXPECT_FALSE(fs::exists(State("meta")));
  EXPECT_THAT(Forget(), HasSubstr("no state was kept"));
  StartAgain();
  ExpectGone();
}

TEST_F(WarmRestartTest, AnEmptyMemoryLeavesNoState) {
  ASSERT_TRUE(Connect().Unpublish("kept"));
  ASSERT_TRUE(daemon_->Stop());
  EXPECT_FALSE(fs::exists(State("pool")));
  EXPECT_FALSE(fs::exists(State("meta")));
}

TEST_F(WarmRestartTest, AnotherSizeOfThePoolKeepsTheState) {
  for (const char* cells : {"2048", "128", "32768", "1024"}) {
    StartAgain({"-c", cells});
    EXPECT_THAT(daemon_->log_text(), HasSubstr("resized"));
    ExpectKept();
  }
  EXPECT_FALSE(fs::exists(State("meta.bad")));
}

TEST_F(WarmRestartTest, APoolThatIsTooSmallIsRefusedWithTheNumbers) {
  ASSERT_TRUE(daemon_->Stop());
  const Status refused = daemon_->StartAgain(Arguments({"-c", "32"}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("1 blocks of 32 cells, but 2 are in use"));
  EXPECT_THAT(refused.error().message, HasSubstr("1 published sequences with 50 tokens"));
  StartAgain();
  ExpectKept();
}

TEST_F(WarmRestartTest, FlagsThatWouldDiscardSequencesAreRefusedUnlessColdIsGiven) {
  ASSERT_TRUE(daemon_->Stop());
  const Status refused = daemon_->StartAgain(Arguments({"-ctk", "f32"}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("K of f16"));
  EXPECT_THAT(refused.error().message, HasSubstr("1 published"));
  StartAgain();
  ExpectKept();
  ASSERT_TRUE(daemon_->Stop());
  StartAgain({"-ctk", "f32", "--cold"});
  EXPECT_THAT(daemon_->log_text(), HasSubstr("kept aside as meta.bad"));
  ExpectGone();
  // The state that was kept aside can be used again.
  ASSERT_TRUE(daemon_->Stop());
  fs::rename(State("meta.bad"), State("meta"));
  StartAgain();
  ExpectKept();
}

TEST_F(WarmRestartTest, ADaemonThatIsKilledWhileItChangesItsSizeKeepsTheState) {
  ASSERT_TRUE(daemon_->Stop());
  std::mt19937_64 random(test::Seed());
  const auto sizes = std::to_array<const char*>({"64", "4096", "1024", "100000"});
  for (int kill = 0; kill < test::Scaled(40, 5); ++kill) {
    const char* const cells = sizes[random() % sizes.size()];
    std::vector<std::string> arguments = Arguments(
        {"-c", cells, "--state-dir", State("").string(), "--socket", daemon_->folder() + "/other"});
    arguments.insert(arguments.begin(), test::KvdPath());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(STDERR_FILENO);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  }
  StartAgain();
  ExpectKept();
}

TEST_F(WarmRestartTest, ADamagedHeaderStartsColdAndLogsTheReason) {
  ASSERT_TRUE(daemon_->Stop());
  std::fstream meta(State("meta"), std::ios::in | std::ios::out | std::ios::binary);
  meta.seekp(40).write("x", 1);
  meta.close();
  StartAgain();
  EXPECT_THAT(daemon_->log_text(), HasSubstr("header_crc: does not match"));
  ExpectGone();
}

TEST_F(WarmRestartTest, CellsThatAreNotFiniteAreFoundWithVerifyPool) {
  ASSERT_TRUE(daemon_->Stop());
  std::fstream pool(State("pool"), std::ios::in | std::ios::out | std::ios::binary);
  pool.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);  // overwrites the first key with NaNs (f16)
  pool.close();
  StartAgain();
  ExpectKept();
  StartAgain({"--verify-pool"});
  const std::string log = daemon_->log_text();
  EXPECT_THAT(log, HasSubstr("sequence_dropped"));
  EXPECT_THAT(log, HasSubstr("snapshot=\"kept\""));
  EXPECT_THAT(log, HasSubstr("K or V is not finite"));
  EXPECT_THAT(log, HasSubstr("cells=checked"));
  ExpectGone();
}

}  // namespace
}  // namespace kvd
