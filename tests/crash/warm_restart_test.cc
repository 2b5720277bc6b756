// Starts a daemon with the state directory of an earlier one: warm starts, cold starts with their
// logged reasons, and the removal of the state by --forget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/e2e/support/served_daemon.h"
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

TEST_F(WarmRestartTest, AnotherConfigurationStartsColdAndLogsTheReason) {
  StartAgain({"-c", "2048"});
  EXPECT_THAT(daemon_->log_text(), HasSubstr("geometry: of another configuration"));
  EXPECT_TRUE(fs::exists(State("meta.bad")));
  ExpectGone();
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
