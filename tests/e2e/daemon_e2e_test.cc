// Tests the daemon as a process: its start, the clients that it refuses, its stop, and a combined
// use of its verbs.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using test::KvdPath;
using ::testing::HasSubstr;

// The output and the exit status of a failed start.
struct FailedStart {
  int status = -1;
  std::string text;
};

class StartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-start-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    ASSERT_EQ(::mkdir((root_ + "/run").c_str(), 0700), 0);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  FailedStart Run(const std::string& arguments) {
    const std::string output = root_ + "/output";
    const std::string command =
        "timeout 20 " + KvdPath() + " " + arguments + " > " + output + " 2>&1";
    const int status = std::system(command.c_str());
    std::ifstream file(output);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            {std::istreambuf_iterator<char>(file), {}}};
  }
  std::string Places() const {
    return "--socket " + root_ + "/run/x.sock --state-dir " + root_ + "/state ";
  }
  std::string root_;
};

TEST_F(StartTest, AWrongFlagExitsWithTwoAndIsNamed) {
  const FailedStart failed = Run(Places() + "-c 0");
  EXPECT_EQ(failed.status, 2);
  EXPECT_THAT(failed.text, HasSubstr("--cells"));
}

TEST_F(StartTest, VersionIsPrinted) {
  const FailedStart printed = Run("--version");
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.text, HasSubstr("kvd "));
}

TEST_F(StartTest, AMissingModelIsNamed) {
  const FailedStart failed = Run(Places() + "-m /nowhere/model.gguf");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.text, HasSubstr("/nowhere/model.gguf"));
}

TEST_F(StartTest, ATruncatedModelIsRefused) {
  std::ofstream(root_ + "/cut.gguf") << "GGUF";
  const FailedStart failed = Run(Places() + "-m " + root_ + "/cut.gguf");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.text, HasSubstr("cut.gguf"));
}

TEST_F(StartTest, ASocketPathThatIsTooLongIsNamed) {
  const FailedStart failed =
      Run("--state-dir " + root_ + "/state --socket " + root_ + "/" + std::string(200, 'x'));
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.text, HasSubstr("socket path"));
}

TEST_F(StartTest, ASocketDirectoryThatOthersMayEnterIsRefused) {
  ASSERT_EQ(::chmod((root_ + "/run").c_str(), 0777), 0);
  const FailedStart failed = Run(Places());
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.text, HasSubstr("socket directory"));
}

TEST_F(StartTest, AMissingDirectoryOfAGivenSocketIsNamedAndNotMade) {
  const FailedStart failed =
      Run("--state-dir " + root_ + "/state --socket " + root_ + "/none/x.sock");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.text, HasSubstr("socket directory " + root_ + "/none: missing"));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/none"));
}

TEST_F(StartTest, AFileAtThePathOfTheSocketIsKept) {
  std::ofstream(root_ + "/run/x.sock") << "precious";
  const FailedStart failed = Run(Places());
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(std::filesystem::file_size(root_ + "/run/x.sock"), 8u);
}

TEST_F(StartTest, ACellCountThatNoMemoryHoldsIsRefused) {
  const FailedStart failed = Run(Places() + "-c 4294967296");
  EXPECT_EQ(failed.status, 1);
  EXPECT_FALSE(failed.text.empty());
}

class DaemonE2eTest : public test::ServedDaemonTest {};

TEST_F(DaemonE2eTest, ASecondDaemonOnTheSameDirectoryIsRefusedWithThePidOfTheFirst) {
  const std::string pid = "pid " + std::to_string(daemon_->pid());
  const std::string output = daemon_->folder() + "/second";
  const std::string same_state = KvdPath() + " --socket " + daemon_->folder() +
                                 "/run/other.sock --state-dir " + daemon_->folder() + "/state 2> " +
                                 output;
  EXPECT_EQ(WEXITSTATUS(std::system(same_state.c_str())), 1);
  std::ifstream first(output);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(first), {}), HasSubstr(pid));

  const std::string same_socket = KvdPath() + " --socket " + socket_path() + " --state-dir " +
                                  daemon_->folder() + "/state2 2> " + output;
  EXPECT_EQ(WEXITSTATUS(std::system(same_socket.c_str())), 1);
  std::ifstream second(output);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(second), {}), HasSubstr(pid));
  ExpectServesOthers();
}

TEST_F(DaemonE2eTest, SocketAndDirectoriesArePrivate) {
  struct stat found{};
  ASSERT_EQ(::stat(socket_path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777u, 0600u);
  ASSERT_EQ(::stat((daemon_->folder() + "/state").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777u, 0700u);
}

TEST_F(DaemonE2eTest, SigtermCancelsRunningRequestsAndKeepsTheirTokens) {
  // The client of this test does not reconnect, so that its generation is not resumed by another
  // daemon.
  auto connected = Client::Connect(
      {.socket_path = socket_path(), .reconnect_timeout = std::chrono::milliseconds(0)});
  ASSERT_TRUE(connected);
  const Client client = std::move(*connected);
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  const std::vector<TokenId> prompt(40, 3);  // long enough to be retained as a prefix
  auto generation = sequence->Generate(
      {.tokens = prompt, .predict_max = 4000, .flags = wire::kIgnoreEos | wire::kNoText});
  ASSERT_TRUE(generation);
  ASSERT_TRUE(generation->Next());
  std::thread stopper([this] {
    const Status stopped = daemon_->Stop();
    EXPECT_TRUE(stopped) << stopped.error().message;
  });
  for (;;) {
    auto piece = generation->Next();
    if (piece && *piece) continue;
    ASSERT_FALSE(piece) << "4000 tokens before the signal?";
    EXPECT_EQ(piece.error().code, Code::kCancelled) << piece.error().message;
    break;
  }
  stopper.join();
  EXPECT_FALSE(std::filesystem::exists(socket_path()));
  EXPECT_TRUE(std::filesystem::exists(daemon_->folder() + "/state/pool"));
  EXPECT_THAT(daemon_->log_text(), HasSubstr("stop"));
}

TEST_F(DaemonE2eTest, AForkContinuesLikeItsSource) {
  const Client client = Connect();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  std::vector<TokenId> tokens(100);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(3 + i % 50);
  ASSERT_TRUE(sequence->Decode(tokens, Pos{0}, wire::LogitsWanted::kNone));
  auto fork = sequence->Fork();
  ASSERT_TRUE(fork) << fork.error().message;
  const std::vector<TokenId> next = {9};
  const auto from_source = sequence->Decode(next, Pos{100});
  const auto from_fork = fork->Decode(next, Pos{100});
  ASSERT_TRUE(from_source && from_fork);
  EXPECT_TRUE(std::ranges::equal(from_source->values(), from_fork->values()))
      << "bit for bit, deterministic";
}

TEST_F(DaemonE2eTest, ASnapshotOutlivesItsPublisher) {
  {
    const Client publisher = Connect();
    auto sequence = publisher.NewSequence();
    ASSERT_TRUE(sequence);
    ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(50, 7), Pos{0}, wire::LogitsWanted::kNone));
    ASSERT_TRUE(sequence->Publish("prefix"));
  }
  const Client other = Connect();
  auto attached = other.AttachSnapshot("prefix");
  ASSERT_TRUE(attached) << attached.error().message;
  EXPECT_EQ(attached->Query()->cell_count, 50u);
  ASSERT_TRUE(other.Unpublish("prefix"));
  EXPECT_EQ(attached->Query()->cell_count, 50u) << "a fork lives on";
}

TEST_F(DaemonE2eTest, AClientCostsLittleMemoryBesideItsSegments) {
  const Client first = Connect();
  // The daemon closes earlier connections with a delay, so wait until the counts do not change.
  auto before = first.Info();
  ASSERT_TRUE(before);
  for (int unchanged = 0; unchanged < 10; ++unchanged) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto now = first.Info();
    ASSERT_TRUE(now);
    if (now->descriptors != before->descriptors || now->sessions != 1) unchanged = 0;
    before = now;
  }
  std::vector<Client> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(Connect());
  const auto after = first.Info();
  ASSERT_TRUE(after);
  EXPECT_LT(after->resident_anonymous_bytes,
            before->resident_anonymous_bytes + 20 * (std::uint64_t{1} << 20));
  EXPECT_EQ(after->descriptors, before->descriptors + 20) << "its socket, nothing else";
}

TEST_F(DaemonE2eTest, TextIsTokenizedAndDetokenized) {
  const Client client = Connect();
  const auto tokens = client.Tokenize("Once upon a time", wire::kFlagParseSpecial);
  ASSERT_TRUE(tokens) << tokens.error().message;
  const auto text = client.Detokenize(*tokens);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "Once upon a time");
  // The text is so long that a worker tokenizes it, and has fewer tokens than the pool has cells.
  std::string story;
  for (int i = 0; i < 500; ++i) story += "Once upon a time ";
  const auto many = client.Tokenize(story, 0);
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(*client.Detokenize(*many), story);
}

TEST_F(DaemonE2eTest, ManyClientsAreServedAtOnceAndEachGetsTheRightAnswer) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([this] { ExpectServesOthers(); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DaemonE2eTest, SequencesAreReadBackAsTokensPositionsAndText) {
  const Client client = Connect();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  const auto tokens = client.Tokenize("Once upon a time", 0);
  ASSERT_TRUE(tokens);
  ASSERT_TRUE(sequence->Decode(*tokens, Pos{0}));
  const auto read = client.ReadTokens(sequence->handle());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), tokens->size());
  EXPECT_EQ(read->back().token, tokens->back());
  EXPECT_EQ(read->back().pos.value, static_cast<std::int32_t>(tokens->size()) - 1);
  EXPECT_EQ(*sequence->ReadText(), "Once upon a time");
}

}  // namespace
}  // namespace kvd
