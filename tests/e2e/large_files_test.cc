// A real daemon over a model in several files: the same tokens as from one file, inside the
// sandbox; damaged parts; --prefetch, --mlock, and the major page faults in kvctl info.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/tiny_model.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using test::JsonField;
using ::testing::HasSubstr;
using ::testing::Not;

class LargeFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto whole = MakeModelFile(test::TinyLlama(), nullptr, Path("m.gguf"));
    ASSERT_TRUE(whole.has_value()) << whole.error().message;
    auto parts = MakeModelFile(test::TinyLlama(), nullptr, Path("m.gguf"), {.part_count = 3});
    ASSERT_TRUE(parts.has_value()) << parts.error().message;
    parts_ = parts->paths;
  }
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  static Result<DaemonProcess> Start(const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"-t", "1", "-c", "512", "-m", model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = std::move(arguments)});
  }
  static std::string Kvctl(const DaemonProcess& daemon, const std::string& arguments) {
    const test::KvctlOutcome outcome = test::KvctlProcess(daemon.socket_path()).Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << ": " << outcome.output;
    return outcome.output;
  }
  // The tokens of a fixed greedy generation.
  static std::string TokensOf(const DaemonProcess& daemon) {
    auto client = Client::Connect({.socket_path = daemon.socket_path()});
    EXPECT_TRUE(client) << client.error().message;
    auto sequence = client->NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    const std::vector<TokenId> prompt = {5, 60, 7, 33, 12};
    auto generation = sequence->Generate({.tokens = prompt,
                                          .predict_max = 24,
                                          .sampling = DefaultSamplingAt(0.0f),
                                          .flags = wire::kIgnoreEos});
    EXPECT_TRUE(generation) << generation.error().message;
    std::string text;
    for (;;) {
      auto piece = generation->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece || !*piece) break;
      for (const TokenId token : (*piece)->tokens) text += std::to_string(token) + " ";
    }
    return text;
  }

  const test::TemporaryFolder folder_;
  std::vector<std::string> parts_;
};

TEST_F(LargeFilesTest, AModelInSeveralFilesGivesTheTokensOfOneFile) {
  auto whole = Start(Path("m.gguf"));
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const std::string tokens = TokensOf(*whole);
  EXPECT_FALSE(tokens.empty());
  auto parts = Start(parts_.front());
  ASSERT_TRUE(parts.has_value()) << parts.error().message;
  EXPECT_EQ(TokensOf(*parts), tokens);
  EXPECT_EQ(JsonField(Kvctl(*parts, "info --json"), "weight_bytes"),
            JsonField(Kvctl(*whole, "info --json"), "weight_bytes"));
}

TEST_F(LargeFilesTest, InfoCountsMajorPageFaults) {
  auto daemon = Start(parts_.front());
  ASSERT_TRUE(daemon.has_value()) << daemon.error().message;
  EXPECT_FALSE(JsonField(Kvctl(*daemon, "info --json"), "major_faults").empty());
  EXPECT_THAT(Kvctl(*daemon, "info"), HasSubstr(" major page faults"));
}

TEST_F(LargeFilesTest, EveryWayToReadTheWeightsWorks) {
  auto plain = Start(Path("m.gguf"), {"--prefetch", "off"});
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  const std::string tokens = TokensOf(*plain);
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--prefetch", "on"},
                                             {"--prefetch", "auto"},
                                             {"--mlock"},
                                             {"--mlock", "--prefetch", "off"}}) {
    auto daemon = Start(parts_.front(), flags);
    ASSERT_TRUE(daemon.has_value()) << daemon.error().message;
    EXPECT_EQ(TokensOf(*daemon), tokens) << flags.front() << flags.back();
    EXPECT_TRUE(daemon->Stop());
  }
}

TEST_F(LargeFilesTest, InfoAndTheLogShowTheProgressOfReadingWeights) {
  std::uint64_t bytes = 0;
  for (const std::string& part : parts_) bytes += fs::file_size(part);
  const std::string all = std::to_string(bytes);
  auto daemon = Start(parts_.front());
  ASSERT_TRUE(daemon.has_value()) << daemon.error().message;
  EXPECT_TRUE(test::LogShows(*daemon, "weights_read bytes=" + all));
  std::string json = Kvctl(*daemon, "info --json");
  EXPECT_EQ(JsonField(json, "weight_bytes_read"), all);
  EXPECT_EQ(JsonField(json, "weight_bytes_to_read"), all);
  EXPECT_THAT(Kvctl(*daemon, "info"), HasSubstr(", read\n"));

  auto lazy = Start(parts_.front(), {"--prefetch", "off"});
  ASSERT_TRUE(lazy.has_value()) << lazy.error().message;
  json = Kvctl(*lazy, "info --json");
  EXPECT_EQ(JsonField(json, "weight_bytes_to_read"), "0");
  EXPECT_THAT(Kvctl(*lazy, "info"), HasSubstr(", read when they are used\n"));
  EXPECT_THAT(lazy->log_text(), Not(HasSubstr("weights_read ")));
}

TEST_F(LargeFilesTest, WeightsThatCannotBeLockedAreReportedAndUsed) {
  // Root may lock any number of bytes, so the daemon runs without that capability.
  const std::string script = Path("kvd-without-locks");
  std::ofstream(script) << "#!/bin/sh\nulimit -l 0\n[ \"$(id -u)\" = 0 ] && exec setpriv "
                           "--bounding-set=-ipc_lock --inh-caps=-ipc_lock " +
                               test::KvdPath() + " \"$@\"\nexec " + test::KvdPath() + " \"$@\"\n";
  fs::permissions(script, fs::perms::owner_all);
  auto daemon = DaemonProcess::Start(
      {.kvd_path = script, .arguments = {"-t", "1", "-c", "512", "--mlock", "-m", parts_[0]}});
  ASSERT_TRUE(daemon.has_value()) << daemon.error().message;
  EXPECT_TRUE(test::LogShows(*daemon, "weights_not_locked"));
  EXPECT_TRUE(test::LogShows(*daemon, "RLIMIT_MEMLOCK is 0 bytes"));
  EXPECT_FALSE(TokensOf(*daemon).empty());
}

TEST_F(LargeFilesTest, ADamagedModelFileIsNamedAndTheStateKept) {
  auto daemon = Start(parts_.front());
  ASSERT_TRUE(daemon.has_value()) << daemon.error().message;
  const std::string tokens = TokensOf(*daemon);
  auto client = Client::Connect({.socket_path = daemon->socket_path()});
  ASSERT_TRUE(client) << client.error().message;
  auto sequence = client->NewSequence();
  ASSERT_TRUE(sequence) << sequence.error().message;
  ASSERT_TRUE(sequence->Publish("kept"));
  daemon->Kill();
  const auto expect_refusal = [&](const std::string& model, const std::string& words) {
    const std::string command = test::KvdPath() + " --socket " + daemon->folder() +
                                "/other.sock --state-dir " + daemon->folder() +
                                "/state -t 1 -c 512 -m " + model + " 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
    EXPECT_NE(::pclose(pipe), 0);
    EXPECT_THAT(said, HasSubstr(words));
  };
  expect_refusal(parts_[1], parts_[1] + ": part 2 of 3 of a model; name its first part");
  fs::rename(parts_[2], Path("away"));
  expect_refusal(parts_[0], "the model in 3 parts lacks " + parts_[2]);
  fs::copy_file(parts_[1], parts_[2]);
  expect_refusal(parts_[0], parts_[2] + ": the name says part 3, split.no says part 2");
  fs::copy_file(Path("away"), parts_[2], fs::copy_options::overwrite_existing);
  fs::resize_file(parts_[2], fs::file_size(parts_[2]) - 64);
  expect_refusal(parts_[0], parts_[2] + ": tensor ");
  fs::rename(Path("away"), parts_[2]);
  const Status again = daemon->StartAgain({"-t", "1", "-c", "512", "-m", parts_[0]});
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(test::LogShows(*daemon, "warm_start"));
  EXPECT_THAT(Kvctl(*daemon, "snapshots"), HasSubstr("kept"));
  EXPECT_EQ(TokensOf(*daemon), tokens);
}

}  // namespace
}  // namespace kvd
