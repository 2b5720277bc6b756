// Shares and promises, with one limit at a time. resource_invariants_test tests all limits with
// random verbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/rules_by_owner.h"

namespace kvd {
namespace {

using testing::HasSubstr;

// A memory of four blocks of 32 cells.
class MemorySharesTest : public ::testing::Test {
 protected:
  MemorySharesTest() { memory_->SetShareRules(&rules_); }

  OwnerLimits& LimitsOf(const SequenceOwner& owner) { return rules_.limits[owner.id]; }
  SequenceHandle NewSequence(const SequenceOwner& owner) {
    return *memory_->sequences().Create(owner);
  }
  // Begins a hold on the sequence that counts for `reader`, as a save by `reader` would.
  SequenceHold Hold(SequenceHandle handle, OwnerId reader) {
    SequenceHold hold;
    hold.owner = reader;
    EXPECT_TRUE(memory_->holds().Begin(handle, &hold));
    return hold;
  }

  RulesByOwner rules_;
  std::unique_ptr<Memory> memory_ = MakeMemory(SmallOptions(4 * 32));
};

TEST_F(MemorySharesTest, PromisedBlocksAreNotGivenToOtherSequences) {
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  std::optional<AppendPromise> promise = *memory_->steps().Promise(a, 3 * 32);
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 33).error().code, Code::kNoSpace);
  EXPECT_TRUE(AppendTokens(*memory_, b, 1, 32)) << "one block is not promised";
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 1).error().code, Code::kNoSpace);
  for (int block = 0; block < 3; ++block) EXPECT_TRUE(AppendTokens(*memory_, a, 1, 32));
  EXPECT_EQ(AppendTokens(*memory_, a, 1, 1).error().code, Code::kNoSpace) << "the pool is full";
}

TEST_F(MemorySharesTest, TheEndOfAPromiseFreesItsUnusedBlocks) {
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  {
    const AppendPromise promise = *memory_->steps().Promise(a, 4 * 32);
    EXPECT_TRUE(AppendTokens(*memory_, a, 1, 32));
    EXPECT_EQ(AppendTokens(*memory_, b, 1, 1).error().code, Code::kNoSpace);
  }
  EXPECT_TRUE(AppendTokens(*memory_, b, 1, 3 * 32));
}

TEST_F(MemorySharesTest, ALaterPromiseReplacesTheEarlierOneOfItsSequence) {
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  AppendPromise first = *memory_->steps().Promise(a, 4 * 32);
  const AppendPromise second = *memory_->steps().Promise(a, 32);
  // the second promise has replaced `first`, so this assignment changes nothing
  first = AppendPromise();
  EXPECT_TRUE(AppendTokens(*memory_, b, 1, 3 * 32));
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 1).error().code, Code::kNoSpace);
}

TEST_F(MemorySharesTest, TheLastBlocksCannotBePromisedTwice) {
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  const auto first = memory_->steps().Promise(a, 3 * 32);
  ASSERT_TRUE(first);
  const auto second = memory_->steps().Promise(b, 2 * 32);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kNoSpace);
  EXPECT_TRUE(memory_->steps().Promise(b, 32));
}

// The second part of the step finds no room. The blocks that the first part had taken from its
// promise are promised again.
TEST_F(MemorySharesTest, AFailedStepLeavesPromisesUnchanged) {
  LimitsOf(kOwner).blocks[0] = 4;  // with a limit, promises count for the owner
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  const AppendPromise promise = *memory_->steps().Promise(a, 3 * 32);
  const std::vector<TokenId> block(32, 1);
  const std::vector<TokenId> blocks(2 * 32, 1);
  const AppendRequest requests[] = {{a, Pos{0}, block}, {b, Pos{0}, blocks}};
  StepPlan plan;
  EXPECT_EQ(memory_->steps().Reserve(requests, plan).error().code, Code::kNoSpace);
  EXPECT_EQ(plan.failed, 1u);
  EXPECT_TRUE(AppendTokens(*memory_, b, 1, 32));
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 1).error().code, Code::kNoSpace);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(AppendTokens(*memory_, a, 1, 32));
}

TEST_F(MemorySharesTest, APromiseCountsForItsOwner) {
  LimitsOf(kStranger).blocks[0] = 2;
  const SequenceHandle a = NewSequence(kStranger);
  const SequenceHandle b = NewSequence(kStranger);
  const auto too_much = memory_->steps().Promise(a, 3 * 32);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().message, "pool blocks: 3 more wanted, owner 1001 holds 0 of 2");
  const AppendPromise promise = *memory_->steps().Promise(a, 2 * 32);
  const Status refused = AppendTokens(*memory_, b, 1, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("owner 1001 holds 2 of 2"));
  EXPECT_TRUE(AppendTokens(*memory_, a, 1, 2 * 32)) << "the promised blocks";
  EXPECT_TRUE(AppendTokens(*memory_, NewSequence(kOwner), 1, 2 * 32)) << "another owner";
}

TEST_F(MemorySharesTest, RetainedSequencesAreEvictedForAPromisedToken) {
  const SequenceHandle retained = NewSequence(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, retained, 1, 3 * 32));
  constexpr SequenceOwner kNoSession{kOwner.id, SessionId{0}, 0};
  ASSERT_TRUE(memory_->sequences().SetOwner(retained, kNoSession, layout::kSequenceRetained, 0));
  const SequenceHandle a = NewSequence(kOwner);
  const AppendPromise promise = *memory_->steps().Promise(a, 4 * 32);
  EXPECT_TRUE(memory_->sequences().Query(retained))
      << "a promise does not evict; only an append that needs room does";
  EXPECT_TRUE(AppendTokens(*memory_, a, 1, 4 * 32));
  EXPECT_FALSE(memory_->sequences().Query(retained));
}

// With counts_all, kOwner's limit applies to the sum over all owners. The limit refuses only
// requests that increase this sum; a fork of another owner's blocks does not increase the sum.
TEST_F(MemorySharesTest, BlocksOfAnotherOwnerCanBeSharedAtTheLimit) {
  LimitsOf(kOwner).counts_all = true;
  LimitsOf(kOwner).blocks[0] = 3;
  const SequenceHandle others = NewSequence(kStranger);
  ASSERT_TRUE(AppendTokens(*memory_, others, 1, 3 * 32));
  SequenceHandle fork{};
  EXPECT_TRUE(memory_->sequences().Fork(others, kOwner, {&fork, 1}, std::nullopt));
  const Status refused = AppendTokens(*memory_, fork, 1, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "pool blocks: 1 more wanted, all owners hold 3 of 3");
  EXPECT_TRUE(AppendTokens(*memory_, others, 1, 32)) << "kStranger has no limit";
}

TEST_F(MemorySharesTest, CellsHeldOnlyByASaveCountForItsReader) {
  LimitsOf(kStranger).blocks[0] = 2;
  const SequenceHandle saved = NewSequence(kStranger);
  const SequenceHandle next = NewSequence(kStranger);
  ASSERT_TRUE(AppendTokens(*memory_, saved, 1, 40));
  SequenceHold hold = Hold(saved, kStranger.id);
  SequenceHold again = Hold(saved, kStranger.id);
  EXPECT_EQ(AppendTokens(*memory_, next, 1, 1).error().code, Code::kNoSpace) << "two are held";
  ASSERT_TRUE(memory_->sequences().Drop(saved));
  const Status refused = AppendTokens(*memory_, next, 1, 1);
  ASSERT_FALSE(refused) << "two saves still read the blocks";
  EXPECT_EQ(refused.error().message, "pool blocks: 1 more wanted, owner 1001 holds 2 of 2");
  EXPECT_TRUE(AppendTokens(*memory_, NewSequence(kOwner), 1, 32)) << "another owner";
  memory_->holds().Release(hold);
  EXPECT_FALSE(AppendTokens(*memory_, next, 1, 1)) << "the other save still reads the blocks";
  memory_->holds().Release(again);
  EXPECT_TRUE(AppendTokens(*memory_, next, 1, 64));
}

TEST_F(MemorySharesTest, CellsWithOtherOwnersDoNotCountForTheReader) {
  LimitsOf(kStranger).blocks[0] = 2;
  const SequenceHandle read = NewSequence(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, read, 1, 64));
  SequenceHold hold = Hold(read, kStranger.id);
  const SequenceHandle own = NewSequence(kStranger);
  EXPECT_TRUE(AppendTokens(*memory_, own, 1, 32)) << "the blocks are held by their owner";
  ASSERT_TRUE(memory_->sequences().Drop(read));
  EXPECT_FALSE(AppendTokens(*memory_, own, 1, 1))
      << "the reader's use is 3 blocks of 2 and must not increase";
  EXPECT_TRUE(memory_->sequences().Clear(own)) << "giving something up is never refused";
  memory_->holds().Release(hold);
  EXPECT_TRUE(AppendTokens(*memory_, own, 1, 64));
}

TEST_F(MemorySharesTest, CellsHeldOnlyByASaveCountAgainstTheReserve) {
  LimitsOf(kOwner).counts_all = true;
  LimitsOf(kOwner).blocks[0] = 3;
  const SequenceHandle saved = NewSequence(kStranger);
  ASSERT_TRUE(AppendTokens(*memory_, saved, 1, 64));
  SequenceHold hold = Hold(saved, kStranger.id);
  ASSERT_TRUE(memory_->sequences().Drop(saved));
  const SequenceHandle own = NewSequence(kOwner);
  EXPECT_TRUE(AppendTokens(*memory_, own, 1, 32));
  EXPECT_FALSE(AppendTokens(*memory_, own, 1, 1));
  memory_->holds().Release(hold);
  EXPECT_TRUE(AppendTokens(*memory_, own, 1, 64));
}

TEST_F(MemorySharesTest, ASaveThatBeginsDuringABriefHoldCountsForItsReader) {
  LimitsOf(kStranger).blocks[0] = 2;
  const SequenceHandle read = NewSequence(kStranger);
  ASSERT_TRUE(AppendTokens(*memory_, read, 1, 64));
  SequenceHold brief;
  brief.is_brief = true;
  ASSERT_TRUE(memory_->holds().Begin(read, &brief));
  SequenceHold save = Hold(read, kStranger.id);
  memory_->holds().Release(brief);
  ASSERT_TRUE(memory_->sequences().Drop(read));
  EXPECT_FALSE(AppendTokens(*memory_, NewSequence(kStranger), 1, 1));
  memory_->holds().Release(save);
}

TEST_F(MemorySharesTest, ABriefHoldCountsForNoOwner) {
  LimitsOf(kStranger).blocks[0] = 2;
  const SequenceHandle read = NewSequence(kStranger);
  ASSERT_TRUE(AppendTokens(*memory_, read, 1, 64));
  SequenceHold hold;
  hold.is_brief = true;
  ASSERT_TRUE(memory_->holds().Begin(read, &hold));
  ASSERT_TRUE(memory_->sequences().Drop(read));
  EXPECT_TRUE(AppendTokens(*memory_, NewSequence(kStranger), 1, 64));
  memory_->holds().Release(hold);
  EXPECT_EQ(memory_->Usage().free_blocks, 2u);
}

}  // namespace
}  // namespace kvd
