// kvctl log and kvd_log against a real daemon: the ancestors of a sequence and its edits, also
// after a restart of the daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

class AncestryTest : public test::ServedDaemonTest {
 protected:
  AncestryTest() : ServedDaemonTest({"-c", "4096"}) {}
  std::string Done(const std::string& arguments) const {
    const test::KvctlOutcome outcome = test::KvctlProcess(socket_path()).Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << ": " << outcome.output;
    return outcome.output;
  }
  static std::string Text(const Sequence& sequence) {
    return std::to_string(static_cast<std::uint64_t>(sequence.handle()));
  }
};

TEST_F(AncestryTest, KvctlShowsTheAncestryOfAForkWithItsEdits) {
  const Client client = Connect();
  auto base = client.NewSequence();
  ASSERT_TRUE(base);
  ASSERT_TRUE(base->Decode(std::vector<TokenId>(60, 7), Pos{0}, wire::LogitsWanted::kNone));
  auto middle = base->Fork(50);
  ASSERT_TRUE(middle);
  ASSERT_TRUE(middle->RemoveRange({Pos{10}, Pos{20}}));
  ASSERT_TRUE(middle->Add({Pos{20}, kPosEnd}, -10));
  auto last = middle->Fork();
  ASSERT_TRUE(last);
  ASSERT_TRUE(last->RemoveRange({Pos{35}, kPosEnd}));
  const std::string shown = Done("log " + Text(*last));
  EXPECT_THAT(shown, HasSubstr("sequence " + Text(*last) + ": 35 cells, uid "));
  EXPECT_THAT(shown, HasSubstr("remove_range  removed [35, 40)\nforked with 40 cells from\n"
                               "sequence " +
                               Text(*middle) + ": 40 cells"));
  EXPECT_THAT(shown, HasSubstr("remove_range  removed [10, 20)\n"));
  EXPECT_THAT(shown, HasSubstr("add           shifted [20, 50) by -10\nforked with 50 cells from\n"
                               "sequence " +
                               Text(*base) + ": 60 cells"));
  const std::string json = Done("log " + Text(*last) + " --json");
  EXPECT_THAT(json, HasSubstr("\"parent\":\"" + Text(*middle) + "\",\"parent_cells\":40"));
  EXPECT_THAT(json, HasSubstr("\"verb\":\"add\",\"edit\":\"shifted\",\"p0\":20,\"p1\":50,"
                              "\"delta\":-10"));
  ASSERT_TRUE(client.Drop(base->Detach()));
  EXPECT_THAT(Done("log " + Text(*last)), HasSubstr(", which is gone"));
  const test::KvctlOutcome none = test::KvctlProcess(socket_path()).Run("log 99");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.output, HasSubstr("no such sequence"));
}

TEST_F(AncestryTest, AncestrySurvivesAKillOfTheDaemon) {
  std::vector<wire::LogRecord> before;
  {
    const Client client = Connect();
    auto base = client.NewSequence();
    ASSERT_TRUE(base);
    ASSERT_TRUE(base->Decode(std::vector<TokenId>(60, 7), Pos{0}, wire::LogitsWanted::kNone));
    const auto root = base->Publish("root");
    ASSERT_TRUE(root);
    auto fork = client.AttachSnapshot("root");
    ASSERT_TRUE(fork);
    ASSERT_TRUE(fork->RemoveRange({Pos{40}, Pos{50}}));
    ASSERT_TRUE(fork->Add({Pos{50}, kPosEnd}, 5));
    ASSERT_TRUE(client.Retain(fork->handle()));
    before = client.Call(wire::LogArgs{fork->Detach()}).value().entries;
  }
  ASSERT_EQ(before.size(), 3u) << "itself, the snapshot, and what that is of";
  ASSERT_EQ(before[0].edit_count, 3u) << "retaining has cut it";
  daemon_->Kill();
  ASSERT_TRUE(daemon_->StartAgain());
  const auto after = Connect().Call(wire::LogArgs{static_cast<SequenceHandle>(before[0].sequence)});
  ASSERT_TRUE(after) << after.error().message;
  ASSERT_GE(after->entries.size(), 2u);
  for (std::size_t at = 0; at < 2; ++at) {
    EXPECT_EQ(std::memcmp(&after->entries[at], &before[at], sizeof before[at]), 0) << at;
  }
}

TEST_F(AncestryTest, TheCInterfaceReturnsTheSameAncestry) {
  const Client client = Connect();
  auto base = client.NewSequence();
  ASSERT_TRUE(base);
  ASSERT_TRUE(base->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  auto fork = base->Fork();
  ASSERT_TRUE(fork);
  for (std::int32_t last = 39; last >= 0; --last) {
    ASSERT_TRUE(fork->RemoveRange({Pos{last}, kPosEnd}));
  }
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  const std::string path = socket_path();
  options.socket_path = path.c_str();
  kvd_client* other = nullptr;
  ASSERT_EQ(kvd_connect(&options, &other), KVD_OK) << kvd_error_message();
  const auto handle = static_cast<kvd_sequence>(fork->handle());
  kvd_log_entry* log = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_log(other, handle, &log, &count, nullptr), KVD_OK) << kvd_error_message();
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(log[0].sequence, handle);
  EXPECT_EQ(log[0].parent, static_cast<kvd_sequence>(base->handle()));
  EXPECT_EQ(log[0].parent_cells, 40u);
  EXPECT_EQ(log[0].edit_count, 40u);
  EXPECT_EQ(log[0].edits[0].p0, 31) << "the oldest that is kept";
  EXPECT_EQ(log[0].edits[31].p0, 0);
  EXPECT_EQ(log[0].edits[31].p1, 1);
  EXPECT_EQ(log[0].edits[31].kind, KVD_EDIT_REMOVED);
  EXPECT_EQ(log[0].edits[31].verb, static_cast<std::uint16_t>(wire::Verb::kRemoveRange));
  EXPECT_EQ(log[1].sequence, static_cast<kvd_sequence>(base->handle()));
  EXPECT_EQ(log[1].edit_count, 0u);
  kvd_log_entry* later = nullptr;
  std::size_t later_count = 0;
  kvd_request request = 0;
  ASSERT_EQ(kvd_log(other, handle, &later, &later_count, &request), KVD_OK);
  ASSERT_EQ(kvd_finish(other, request, -1), KVD_OK) << kvd_error_message();
  ASSERT_EQ(later_count, 2u);
  EXPECT_EQ(later[0].edits[31].unix_ms, log[0].edits[31].unix_ms);
  kvd_free(later);
  kvd_free(log);
  EXPECT_EQ(kvd_log(other, 99, &log, &count, nullptr), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_log(other, handle, nullptr, &count, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_log(other, handle, &log, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  kvd_close(other);
}

}  // namespace
}  // namespace kvd
