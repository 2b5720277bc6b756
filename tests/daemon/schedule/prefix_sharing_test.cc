// Tests prompts that are given to the scheduler: which prefixes the prompts take from other
// sequences, and that concurrent prompts compute a common prefix once.
#include "daemon/schedule/prefix_sharing.h"

#include <numeric>
#include <optional>
#include <utility>

#include "tests/daemon/support/prompt_fixture.h"

namespace kvd {
namespace {

using test::Join;
using test::kOther;
using test::kOwn;
using test::Prompt;
using test::ReceivedCompletion;
using test::TestSession;
using test::Tokens;
using wire::Verb;

using PrefixSharingTest = test::PromptTest;

TEST_F(PrefixSharingTest, APromptOfAnotherSessionIsNotComputedAgain) {
  EXPECT_EQ(Compute(client_, Prompt(300)),
            (PrefixReuse{0, PrefixOrigin::kNone, PrefixLimit::kNone}));
  const Tokens longer = Join(Prompt(300), {7, 8, 9});
  const SequenceHandle sequence = Start(sibling_, longer);
  EXPECT_EQ(Finish(sibling_), (PrefixReuse{300, PrefixOrigin::kLive, PrefixLimit::kNone}));
  ExpectHolds(sequence, longer);
  EXPECT_EQ(Compute(sibling_, Prompt(300)),
            (PrefixReuse{299, PrefixOrigin::kLive, PrefixLimit::kComplete}));
  EXPECT_EQ(Computed(), 300u + 3u + 1u);
  EXPECT_EQ(scheduler_.prefix_sharing().prompts(), 3u);
  EXPECT_EQ(scheduler_.prefix_sharing().hits(), 2u);
}

TEST_F(PrefixSharingTest, PromptsOfAClosedSessionAreReused) {
  const SequenceHandle left = Start(client_, Prompt(200));
  (void)Finish(client_);
  client_.session()->Close();
  service_.SessionClosed(client_.session()->id());
  EXPECT_TRUE(engine_.memory().sequences().Query(left)->flags & layout::kSequenceRetained);
  EXPECT_EQ(Compute(sibling_, Prompt(200)),
            (PrefixReuse{199, PrefixOrigin::kRetained, PrefixLimit::kComplete}));
}

TEST_F(PrefixSharingTest, OtherUidsAndOtherSaltsReuseNothing) {
  EXPECT_EQ(Compute(client_, Prompt(100)).tokens, 0u);
  EXPECT_EQ(Compute(stranger_, Prompt(100)).tokens, 0u);
  wire::Submission create = Make(wire::CreateArgs{.cache_salt = 77});
  const SequenceHandle salted = Call(client_, create).sequence();
  Start(client_, salted, Prompt(100));
  EXPECT_EQ(Finish(client_), (PrefixReuse{0, PrefixOrigin::kNone, PrefixLimit::kNamespace}));
  EXPECT_EQ(Computed(), 300u);
}

TEST_F(PrefixSharingTest, ReuseCanBeSwitchedOffAndTheReplyHasTheReason) {
  (void)Compute(client_, Prompt(100));
  const SequenceHandle off = Create(sibling_);
  Start(sibling_, off, Prompt(100), wire::LogitsWanted::kNone, wire::kFlagNoPrefix);
  EXPECT_EQ(Finish(sibling_).limit, PrefixLimit::kOff);
  const SequenceHandle all = Create(sibling_);
  Start(sibling_, all, Prompt(100), wire::LogitsWanted::kAll);
  EXPECT_EQ(Finish(sibling_).limit, PrefixLimit::kAllLogits);
  wire::Submission more = Make(wire::DecodeArgs{.sequence = all, .pos = Pos{100}});
  more.request = ++last_request_;
  const Tokens tokens = Prompt(30);
  ReceivedSubmission received = sibling_.Send(more, std::as_bytes(std::span(tokens)));
  (void)service_.Handle(sibling_.session(), received);
  EXPECT_EQ(Finish(sibling_).limit, PrefixLimit::kNotEmpty);
  EXPECT_EQ(Compute(sibling_, Prompt(10)).limit, PrefixLimit::kTooShort);
}

TEST_F(PrefixSharingTest, ACommonPrefixOfPromptsInFlightIsComputedOnce) {
  const Tokens first = Join(Prompt(300), {7, 8, 9});
  const Tokens second = Join(Prompt(300), {20, 21});
  const SequenceHandle a = Start(client_, first);
  const SequenceHandle b = Start(sibling_, second);
  const SequenceHandle c = Start(sibling_, second);
  RunDry();
  ExpectHolds(a, first);
  ExpectHolds(b, second);
  ExpectHolds(c, second);
  EXPECT_EQ(Computed(), 303u + 2u + 1u);
}

TEST_F(PrefixSharingTest, PromptsWithOtherPrefixesDoNotWait) {
  (void)Start(client_, Prompt(300));
  (void)Start(sibling_, Prompt(300, 5));
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(engine_.steps().front().size(), 2u);
  RunDry();
  EXPECT_EQ(Computed(), 600u);
}

TEST_F(PrefixSharingTest, AFollowerContinuesWhenTheLeaderIsDropped) {
  const SequenceHandle a = Start(client_, Prompt(400));
  const SequenceHandle b = Start(sibling_, Prompt(400));
  ASSERT_TRUE(scheduler_.RunOnce());
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(Computed(), 256u);
  EXPECT_EQ(Cells(b), 128u) << "what was committed before this round";
  client_.session()->Close();
  service_.SessionClosed(client_.session()->id());
  EXPECT_EQ(Finish(sibling_).tokens, 256u);
  EXPECT_EQ(Computed(), 400u);
  ExpectHolds(b, Prompt(400));
  EXPECT_TRUE(engine_.memory().sequences().Query(a)) << "retained";
}

TEST_F(PrefixSharingTest, ADroppedLeaderTakesNoCellsFromItsFollowers) {
  const SequenceHandle a = Start(client_, Prompt(400));
  const SequenceHandle b = Start(sibling_, Prompt(400));
  ASSERT_TRUE(scheduler_.RunOnce());
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(Call(client_, Make(Verb::kDrop, a)).code(), Code::kOk);
  EXPECT_EQ(Finish(sibling_).tokens, 128u);
  ExpectHolds(b, Prompt(400));
  EXPECT_EQ(Computed(), 256u + (400u - 128u));
}

TEST_F(PrefixSharingTest, ACancelledFollowerEndsAtOnce) {
  (void)Start(client_, Prompt(400));
  (void)Start(sibling_, Prompt(400));
  ASSERT_TRUE(scheduler_.RunOnce());
  wire::Submission cancel = Make(wire::CancelArgs{.request = RequestId{last_request_}});
  EXPECT_TRUE(Call(sibling_, cancel).As<wire::CancelReply>().was_found);
  ASSERT_TRUE(scheduler_.RunOnce());
  RunDry();
  EXPECT_EQ(Computed(), 400u);
}

TEST_F(PrefixSharingTest, FollowersDoNotWaitForALeaderThatWaitsForItsClient) {
  ChannelGeometry small;
  small.result_arena_bytes = wire::kArenaBytesMin;  // room for 256 rows of 64 floats
  TestSession slow(9, kOwn, small);
  slow.HoldOutputs();
  const SequenceHandle a = Create(slow);
  Start(slow, a, Prompt(600), wire::LogitsWanted::kAll);
  const SequenceHandle b = Start(sibling_, Prompt(600));
  const PrefixReuse reuse = Finish(sibling_);
  EXPECT_LT(Cells(a), 600u);
  EXPECT_GE(reuse.tokens, 128u);
  ExpectHolds(b, Prompt(600));
  service_.SessionClosed(slow.session()->id());
  slow.session()->Close();
  RunDry();
}

TEST_F(PrefixSharingTest, SequencesArePinnedRetainedAndDropped) {
  const SequenceHandle kept = Start(client_, Prompt(100));
  const SequenceHandle gone = Start(client_, Prompt(100, 9));
  RunDry();
  (void)client_.All();
  wire::Submission pin = Make(wire::PinArgs{.sequence = kept, .is_pinned = true});
  EXPECT_EQ(Call(client_, pin).code(), Code::kOk);
  ExpectRefused(Call(sibling_, pin), Code::kPermission, "force");
  EXPECT_TRUE(Call(client_, Make(Verb::kRetain, kept)).As<wire::RetainReply>().stays);
  EXPECT_TRUE(Call(client_, Make(Verb::kRetain, gone)).As<wire::RetainReply>().stays);
  ExpectRefused(Call(stranger_, Make(Verb::kRetain, gone)), Code::kNotFound, "no such");
  EXPECT_EQ(Call(stranger_, Make(Verb::kDropRetained)).As<wire::DropRetainedReply>().count, 0u);
  EXPECT_EQ(Call(sibling_, Make(Verb::kDropRetained)).As<wire::DropRetainedReply>().count, 1u);
  EXPECT_FALSE(engine_.memory().sequences().Query(gone));
  pin = Make(wire::PinArgs{.sequence = kept, .is_pinned = false});
  EXPECT_EQ(Call(sibling_, pin).code(), Code::kOk) << "every client of the uid may pin them";
  EXPECT_EQ(Call(sibling_, Make(Verb::kDropRetained)).As<wire::DropRetainedReply>().count, 1u);
  EXPECT_FALSE(engine_.memory().sequences().Query(kept));
}

TEST_F(PrefixSharingTest, ContinuingARetainedSequenceMakesTheSessionItsOwner) {
  const SequenceHandle sequence = Start(client_, Prompt(100));
  (void)Finish(client_);
  EXPECT_TRUE(Call(client_, Make(Verb::kRetain, sequence)).As<wire::RetainReply>().stays);
  wire::Submission more = Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{100}});
  EXPECT_EQ(CallTokens(sibling_, more, {5}).code(), Code::kOk);
  const SequenceInfo info = *engine_.memory().sequences().Query(sequence);
  EXPECT_EQ(info.owner.session, sibling_.session()->id());
  EXPECT_FALSE(info.flags & layout::kSequenceRetained);
  RunDry();
}

TEST_F(PrefixSharingTest, ARefusedVerbLeavesARetainedSequenceUnchanged) {
  const SequenceHandle sequence = Filled(client_, 40);
  EXPECT_TRUE(Call(client_, Make(Verb::kRetain, sequence)).As<wire::RetainReply>().stays);
  const SequenceInfo before = *engine_.memory().sequences().Query(sequence);
  wire::Submission decode = Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{7}});
  ExpectRefused(CallTokens(sibling_, decode, {5}), Code::kInvalidArgument, "next position");
  wire::Submission add =
      Make(wire::AddArgs{.sequence = sequence, .delta = -3});  // below position 0
  ExpectRefused(Call(sibling_, add), Code::kInvalidArgument, "0");
  wire::Submission divide = Make(wire::DivideArgs{.sequence = sequence, .divisor = 0});
  ExpectRefused(Call(sibling_, divide), Code::kInvalidArgument, "divide.divisor");
  wire::Submission copy =
      Make(wire::CopyRangeArgs{.source = Filled(sibling_, 40), .destination = sequence});
  ExpectRefused(Call(sibling_, copy), Code::kExists, "");
  const SequenceInfo after = *engine_.memory().sequences().Query(sequence);
  EXPECT_EQ(after.flags, before.flags);
  EXPECT_TRUE(after.flags & layout::kSequenceRetained);
  EXPECT_EQ(after.owner.session, before.owner.session);
  EXPECT_EQ(after.cell_count, 40u);
  EXPECT_EQ(Call(client_, Make(Verb::kDropRetained)).As<wire::DropRetainedReply>().count, 1u)
      << "it is evictable as before";
}

// Retaining does not avoid the owner's quota: a retained sequence that is used again counts.
TEST_F(PrefixSharingTest, ARetainedSequenceCountsForItsNewOwnerBeforeItChanges) {
  const std::uint64_t total = engine_.memory().Usage().total_blocks;
  const std::uint64_t share =
      shares_.LimitsOf(OwnerOf(kOther), engine_.memory().geometry()).blocks[0];
  ASSERT_LT(share, total);
  const auto cells = static_cast<std::size_t>(share * layout::kBlockCells * 3 / 4);
  std::vector<SequenceHandle> sequences;
  for (int made = 0; made < 4; ++made) {
    sequences.push_back(Start(stranger_, Prompt(cells, 100 + made)));
    (void)Finish(stranger_);
    EXPECT_TRUE(
        Call(stranger_, Make(Verb::kRetain, sequences.back())).As<wire::RetainReply>().stays);
  }
  std::size_t refused = 0;
  for (const SequenceHandle sequence : sequences) {
    wire::Submission add = Make(wire::AddArgs{.sequence = sequence, .delta = 5});
    const ReceivedCompletion reply = Call(stranger_, add);
    if (reply.code() == Code::kOk) continue;
    ++refused;
    ExpectRefused(reply, Code::kNoSpace, "owner 1001");
    EXPECT_TRUE(engine_.memory().sequences().Query(sequence)->flags & layout::kSequenceRetained);
    EXPECT_TRUE(
        std::cmp_equal(engine_.memory().sequences().Query(sequence)->next_pos.value, cells));
  }
  EXPECT_EQ(refused, 3u);
  EXPECT_LE(engine_.memory().sequences().UseOf(OwnerOf(kOther)).blocks[0], share);
}

class RetainsNothingTest : public PrefixSharingTest {
 protected:
  RetainsNothingTest()
      : apart_(engine_, scheduler_, shares_,
               {.pid_of_session = [](SessionId) { return 7u; }, .session_count = [] { return 1u; }},
               {.is_shared = false, .retained_max = 0}) {}
  Service apart_;
};

TEST_F(RetainsNothingTest, ADaemonCanBeToldToRetainNoSequences) {
  const SequenceHandle sequence = Start(client_, Prompt(100));
  (void)Finish(client_);
  apart_.SessionClosed(client_.session()->id());
  EXPECT_FALSE(engine_.memory().sequences().Query(sequence));
}

class RecurrentPrefixTest : public PrefixSharingTest {
 protected:
  RecurrentPrefixTest() : PrefixSharingTest({.cells = 4096, .has_state = true}) {}
};

TEST_F(RecurrentPrefixTest, TheSamePromptComputesOnlyItsLastToken) {
  (void)Compute(client_, Prompt(100));
  EXPECT_EQ(Compute(sibling_, Prompt(100)),
            (PrefixReuse{99, PrefixOrigin::kLive, PrefixLimit::kComplete}));
}

TEST_F(RecurrentPrefixTest, ACheckpointIsMadeWhereTwoPromptsDiverged) {
  (void)Compute(client_, Join(Prompt(100), Prompt(50, 11)));
  const PrefixReuse second = Compute(sibling_, Join(Prompt(100), Prompt(50, 22)));
  EXPECT_EQ(second.limit, PrefixLimit::kNoCheckpoint);
  EXPECT_EQ(Compute(sibling_, Join(Prompt(100), Prompt(50, 33))).tokens, 100u);
}

TEST_F(RecurrentPrefixTest, AFollowerReusesTheStateWhereThePromptsDiverge) {
  const Tokens second = Join(Prompt(300), Prompt(40, 22));
  (void)Start(client_, Join(Prompt(300), Prompt(40, 11)));
  const SequenceHandle b = Start(sibling_, second);
  EXPECT_EQ(Finish(sibling_).tokens, 300u);
  ExpectHolds(b, second);
  EXPECT_EQ(Computed(), 300u + 40u + 40u);
}

}  // namespace
}  // namespace kvd
