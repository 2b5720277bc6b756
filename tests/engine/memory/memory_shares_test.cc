// Shares and promises, each limit by itself. resource_invariants_test drives them at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using testing::HasSubstr;

constexpr SequenceOwner kOwner{OwnerId{1000}, SessionId{1}, 0};
constexpr SequenceOwner kOther{OwnerId{1001}, SessionId{2}, 0};

class RulesByOwner final : public ShareRules {
 public:
  std::map<OwnerId, OwnerLimits> limits;
  OwnerLimits LimitsOf(OwnerId owner, const MemoryGeometry&) const override {
    const auto known = limits.find(owner);
    return known == limits.end() ? OwnerLimits{} : known->second;
  }
};

// Four blocks of 32 cells.
class MemorySharesTest : public ::testing::Test {
 protected:
  MemorySharesTest() { memory_->SetShareRules(&rules_); }

  OwnerLimits& LimitsOf(const SequenceOwner& owner) { return rules_.limits[owner.id]; }
  SequenceHandle NewSequence(const SequenceOwner& owner) {
    return *memory_->sequences().Create(owner);
  }

  RulesByOwner rules_;
  std::unique_ptr<Memory> memory_ = MakeMemory(SmallOptions(4 * 32));
};

TEST_F(MemorySharesTest, WhatIsPromisedIsKeptFromOtherSequences) {
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  std::optional<AppendPromise> promise = *memory_->steps().Promise(a, 3 * 32);
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 33).error().code, Code::kNoSpace);
  EXPECT_TRUE(AppendTokens(*memory_, b, 1, 32)) << "one block is promised to none";
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 1).error().code, Code::kNoSpace);
  for (int block = 0; block < 3; ++block) EXPECT_TRUE(AppendTokens(*memory_, a, 1, 32));
  EXPECT_EQ(AppendTokens(*memory_, a, 1, 1).error().code, Code::kNoSpace) << "the pool is full";
}

TEST_F(MemorySharesTest, APromiseThatEndsFreesWhatWasNotUsed) {
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
  first = AppendPromise();  // it is over already: the second one stays
  EXPECT_TRUE(AppendTokens(*memory_, b, 1, 3 * 32));
  EXPECT_EQ(AppendTokens(*memory_, b, 1, 1).error().code, Code::kNoSpace);
}

TEST_F(MemorySharesTest, TwoPromisesCannotBothHaveTheLastBlocks) {
  const SequenceHandle a = NewSequence(kOwner);
  const SequenceHandle b = NewSequence(kOwner);
  const auto first = memory_->steps().Promise(a, 3 * 32);
  ASSERT_TRUE(first);
  const auto second = memory_->steps().Promise(b, 2 * 32);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kNoSpace);
  EXPECT_TRUE(memory_->steps().Promise(b, 32));
}

// The second part of the step finds no room: what the first one had taken is promised again.
TEST_F(MemorySharesTest, AStepThatFailsLeavesPromisesAsTheyWere) {
  LimitsOf(kOwner).blocks[0] = 4;  // so that promises are counted
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
  LimitsOf(kOther).blocks[0] = 2;
  const SequenceHandle a = NewSequence(kOther);
  const SequenceHandle b = NewSequence(kOther);
  const auto too_much = memory_->steps().Promise(a, 3 * 32);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().message, "pool blocks: 3 more wanted, owner 1001 holds 0 of 2");
  const AppendPromise promise = *memory_->steps().Promise(a, 2 * 32);
  const Status refused = AppendTokens(*memory_, b, 1, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("owner 1001 holds 2 of 2"));
  EXPECT_TRUE(AppendTokens(*memory_, a, 1, 2 * 32)) << "what was promised";
  EXPECT_TRUE(AppendTokens(*memory_, NewSequence(kOwner), 1, 2 * 32)) << "another owner";
}

TEST_F(MemorySharesTest, RetainedSequencesGiveWayToAPromisedToken) {
  const SequenceHandle retained = NewSequence(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, retained, 1, 3 * 32));
  constexpr SequenceOwner kNoSession{kOwner.id, SessionId{0}, 0};
  ASSERT_TRUE(memory_->sequences().SetOwner(retained, kNoSession, layout::kSequenceRetained, 0));
  const SequenceHandle a = NewSequence(kOwner);
  const AppendPromise promise = *memory_->steps().Promise(a, 4 * 32);
  EXPECT_TRUE(memory_->sequences().Query(retained)) << "nothing is evicted before it is needed";
  EXPECT_TRUE(AppendTokens(*memory_, a, 1, 4 * 32));
  EXPECT_FALSE(memory_->sequences().Query(retained));
}

// The own uid leaves a reserve to the others: what all hold counts, and only what is more than
// before.
TEST_F(MemorySharesTest, BlocksThatAnotherOwnerHoldsAlreadyCanBeSharedAtTheLimit) {
  LimitsOf(kOwner).counts_all = true;
  LimitsOf(kOwner).blocks[0] = 3;
  const SequenceHandle others = NewSequence(kOther);
  ASSERT_TRUE(AppendTokens(*memory_, others, 1, 3 * 32));
  SequenceHandle fork{};
  EXPECT_TRUE(memory_->sequences().Fork(others, kOwner, {&fork, 1}, std::nullopt));
  const Status refused = AppendTokens(*memory_, fork, 1, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "pool blocks: 1 more wanted, owner 1000 holds 3 of 3");
  EXPECT_TRUE(AppendTokens(*memory_, others, 1, 32)) << "the reserve is for the others";
}

}  // namespace
}  // namespace kvd
