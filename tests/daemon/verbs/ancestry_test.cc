// Tests the verb kLog: the answer lists a sequence, its ancestors and their edits, and includes
// another uid's sequence only if the caller may read that sequence.
#include <cstring>
#include <vector>

#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::kOther;
using test::kOwn;
using test::ReceivedCompletion;
using test::TestSession;
using wire::Verb;

std::uint64_t Number(SequenceHandle handle) { return static_cast<std::uint64_t>(handle); }

class AncestryTest : public test::ServiceTest {
 protected:
  std::vector<wire::LogRecord> Log(TestSession& client, SequenceHandle sequence) {
    const ReceivedCompletion reply = Call(client, Make(Verb::kLog, sequence));
    EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
    EXPECT_EQ(reply.output.size() % sizeof(wire::LogRecord), 0u);
    std::vector<wire::LogRecord> records(reply.output.size() / sizeof(wire::LogRecord));
    std::memcpy(records.data(), reply.output.data(), reply.output.size());
    return records;
  }
  SequenceHandle ForkOf(TestSession& client, SequenceHandle source) {
    wire::Submission fork = Make(wire::ForkArgs{.sequence = source});
    const ReceivedCompletion reply = Call(client, fork);
    EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
    return reply.sequence();
  }
  void Publish(SequenceHandle sequence, const char* name, std::uint16_t flags) {
    wire::Submission publish = Make(Verb::kPublish, sequence);
    publish.flags = flags;
    ASSERT_EQ(CallText(client_, publish, name).code(), Code::kOk);
  }
};

TEST_F(AncestryTest, EachAncestorIsListedWithItsEdits) {
  const SequenceHandle base = Filled(client_, 40);
  const SequenceHandle middle = ForkOf(client_, base);
  wire::Submission removed =
      Make(wire::RemoveRangeArgs{.sequence = middle, .range = {Pos{10}, Pos{20}}});
  ASSERT_EQ(Call(client_, removed).code(), Code::kOk);
  const SequenceHandle last = ForkOf(client_, middle);
  ASSERT_EQ(Call(client_, Make(Verb::kClear, last)).code(), Code::kOk);
  // A session of the same uid may read all three sequences.
  const std::vector<wire::LogRecord> log = Log(sibling_, last);
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0].sequence, Number(last));
  EXPECT_EQ(log[0].parent, Number(middle));
  EXPECT_EQ(log[0].parent_cells, 30u);
  EXPECT_EQ(log[0].cell_count, 0u);
  EXPECT_EQ(log[0].owner_uid, kOwn);
  EXPECT_EQ(log[0].edit_count, 1u);
  EXPECT_EQ(log[0].edits[0].verb, static_cast<std::uint16_t>(Verb::kClear));
  EXPECT_EQ(log[1].sequence, Number(middle));
  EXPECT_EQ(log[1].parent_cells, 40u);
  ASSERT_EQ(log[1].edit_count, 1u);
  EXPECT_EQ(log[1].edits[0].kind, layout::kEditRemoved);
  EXPECT_EQ(log[1].edits[0].verb, static_cast<std::uint16_t>(Verb::kRemoveRange));
  EXPECT_EQ(log[1].edits[0].first, 10);
  EXPECT_EQ(log[1].edits[0].end, 20);
  EXPECT_NE(log[1].edits[0].unix_ms, 0u);
  EXPECT_EQ(log[1].edits[1].unix_ms, 0u);
  EXPECT_EQ(log[2].sequence, Number(base));
  EXPECT_EQ(log[2].parent, 0u);
  EXPECT_EQ(log[2].edit_count, 0u);
}

TEST_F(AncestryTest, TheAncestryEndsAtADroppedParent) {
  const SequenceHandle base = Filled(client_, 40);
  const SequenceHandle fork = ForkOf(client_, base);
  ASSERT_EQ(Call(client_, Make(Verb::kDrop, base)).code(), Code::kOk);
  ASSERT_EQ(IndexOf(Filled(client_, 3)), IndexOf(base)) << "another one has its record";
  const std::vector<wire::LogRecord> log = Log(client_, fork);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].parent, Number(base));
  EXPECT_EQ(log[0].parent_cells, 40u);
}

TEST_F(AncestryTest, AParentOfAnotherUidIsNotShown) {
  const SequenceHandle hidden = Filled(client_, 40);
  Publish(hidden, "ours", wire::kFlagPublic);
  const ReceivedCompletion attached = CallText(stranger_, Make(Verb::kAttach), "ours");
  ASSERT_EQ(attached.code(), Code::kOk);
  const SequenceHandle snapshot =
      engine_.memory().snapshots().Find("ours", OwnerOf(kOwn))->sequence;
  const std::vector<wire::LogRecord> own = Log(client_, snapshot);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].parent, Number(hidden));
  const std::vector<wire::LogRecord> log = Log(stranger_, attached.sequence());
  ASSERT_EQ(log.size(), 2u) << "itself and the public snapshot";
  EXPECT_EQ(log[0].owner_uid, kOther);
  EXPECT_EQ(log[1].owner_uid, kOwn);
  EXPECT_EQ(log[1].parent, 0u);
  EXPECT_EQ(log[1].parent_cells, 0u);
  ExpectRefused(Call(stranger_, Make(Verb::kLog, hidden)), Code::kNotFound, "no such sequence");
  // The stranger reads the same record after the hidden sequence was dropped.
  ASSERT_EQ(Call(client_, Make(Verb::kDrop, hidden)).code(), Code::kOk);
  const std::vector<wire::LogRecord> later = Log(stranger_, attached.sequence());
  ASSERT_EQ(later.size(), 2u);
  EXPECT_EQ(std::memcmp(&log[1], &later[1], sizeof log[1]), 0);
  ASSERT_EQ(CallText(client_, Make(Verb::kUnpublish), "ours").code(), Code::kOk);
  EXPECT_EQ(Log(stranger_, attached.sequence()).size(), 1u);
}

TEST_F(AncestryTest, ALongAncestryIsListedUpToTheLimit) {
  SequenceHandle last = Filled(client_, 3);
  for (std::size_t number = 1; number < wire::kLogSequencesMax; ++number) {
    last = ForkOf(client_, last);
  }
  EXPECT_EQ(Log(client_, last).size(), wire::kLogSequencesMax);
  EXPECT_EQ(Log(client_, last).back().parent, 0u);
  last = ForkOf(client_, last);
  const std::vector<wire::LogRecord> log = Log(client_, last);
  EXPECT_EQ(log.size(), wire::kLogSequencesMax);
  EXPECT_NE(log.back().parent, 0u) << "there is more of it";
}

}  // namespace
}  // namespace kvd
