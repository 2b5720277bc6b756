#include "engine/memory/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "engine/memory/cell_rewrites.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/rewrite_all.h"
#include "tests/support/into.h"

namespace kvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Checks after each test that the memory's derived tables equal those rebuilt from its bytes.
class MemoryTest : public testing::Test {
 protected:
  void Use(const MemoryOptions& options) { memory_ = MakeMemory(options); }
  void SetUp() override { Use(SmallOptions(256)); }
  void TearDown() override { ExpectConsistent(); }

  void ExpectConsistent() {
    const MetaCopy copy(memory_->meta_bytes());
    const Result<DerivedTables> rebuilt = RebuildTables(copy.bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    EXPECT_TRUE(*rebuilt == memory_->derived());
  }
  SequenceHandle Make(std::size_t token_count, TokenId first = 100) {
    const SequenceHandle handle = *memory_->sequences().Create(kOwner);
    if (token_count > 0) {
      const Status status = AppendTokens(*memory_, handle, first, token_count);
      EXPECT_TRUE(status) << status.error().message;
    }
    return handle;
  }
  SequenceHandle ForkOf(SequenceHandle source, std::optional<std::uint32_t> cells = std::nullopt) {
    SequenceHandle fork = SequenceHandle::kNone;
    const Status status = memory_->sequences().Fork(source, kOwner, {&fork, 1}, cells);
    EXPECT_TRUE(status) << status.error().message;
    return fork;
  }
  Code CodeOf(const Status& status) { return status ? Code::kOk : status.error().code; }

  std::unique_ptr<Memory> memory_;
};

TEST_F(MemoryTest, AnAppendedSequenceIsReadBackAndPristine) {
  const SequenceHandle handle = Make(70);
  const SequenceInfo info = *memory_->sequences().Query(handle);
  EXPECT_EQ(info.cell_count, 70u);
  EXPECT_EQ(info.pristine_cells, 70u);
  EXPECT_EQ(info.extent_count, 3u);
  EXPECT_EQ(memory_->sequences().QueryUse(handle)->shared_cells, 0u);
  EXPECT_EQ(info.next_pos.value, 70);
  const Contents contents = ContentsOf(*memory_, handle);
  for (int k = 0; k < 70; ++k) {
    EXPECT_EQ(contents.tokens[static_cast<std::size_t>(k)], 100 + k);
    EXPECT_EQ(contents.positions[static_cast<std::size_t>(k)], k);
  }
}

TEST_F(MemoryTest, ForkSharesCellsUntilOneSequenceDiverges) {
  const SequenceHandle source = Make(40);
  const SequenceHandle fork = ForkOf(source);
  EXPECT_EQ(memory_->sequences().QueryUse(fork)->shared_cells, 40u);
  EXPECT_EQ(memory_->Usage().live_cells, 40u);
  ASSERT_TRUE(AppendTokens(*memory_, source, 500, 2));
  ASSERT_TRUE(AppendTokens(*memory_, fork, 600, 2));
  // The source, which appends first, takes the free tail of the block; the fork starts a new block.
  EXPECT_EQ(memory_->sequences().Query(source)->extent_count, 2u);
  EXPECT_EQ(memory_->sequences().Query(fork)->extent_count, 3u);
  EXPECT_EQ(memory_->sequences().QueryUse(fork)->shared_cells, 40u);
  EXPECT_EQ(memory_->Usage().live_cells, 44u);
  EXPECT_EQ(ContentsOf(*memory_, source).tokens[40], 500);
  EXPECT_EQ(ContentsOf(*memory_, fork).tokens[40], 600);
}

TEST_F(MemoryTest, OfTwoForksInOneStepOneExtendsTheTail) {
  const SequenceHandle a = Make(10);
  const SequenceHandle b = ForkOf(a);
  const std::vector<TokenId> tokens = {1, 2};
  const AppendRequest requests[] = {{a, Pos{10}, tokens}, {b, Pos{10}, tokens}};
  StepPlan plan;
  ASSERT_TRUE(memory_->steps().Reserve(requests, plan));
  EXPECT_EQ(plan.sequences[0].groups[0].extents.size(), 1u);
  EXPECT_EQ(plan.sequences[0].groups[0].first_new_extent, 0u);
  EXPECT_EQ(plan.sequences[1].groups[0].extents.size(), 2u);
  EXPECT_EQ(plan.sequences[1].groups[0].first_new_extent, 1u);
  ExpectConsistent();
  ASSERT_TRUE(memory_->steps().Commit(plan, 1));
  ASSERT_TRUE(memory_->steps().Commit(plan, 0));
  memory_->steps().EndStep(plan);
}

TEST_F(MemoryTest, AnUnreferencedTailIsReused) {
  const SequenceHandle a = Make(20);
  const SequenceHandle b = ForkOf(a, 10);
  ASSERT_TRUE(memory_->sequences().Drop(a));
  ASSERT_TRUE(AppendTokens(*memory_, b, 900, 3));
  EXPECT_EQ(memory_->sequences().Query(b)->extent_count, 1u);
  EXPECT_EQ(memory_->sequences().Query(b)->pristine_cells, 13u);
}

TEST_F(MemoryTest, RemovingAMiddleLeavesAGapAndAppendingContinuesAtTheEnd) {
  const SequenceHandle handle = Make(10);
  EXPECT_EQ(*memory_->sequences().RemoveRange(handle, {Pos{3}, Pos{6}}), 3u);
  EXPECT_THAT(ContentsOf(*memory_, handle).positions, ElementsAre(0, 1, 2, 6, 7, 8, 9));
  EXPECT_EQ(memory_->sequences().Query(handle)->pristine_cells, 3u);
  EXPECT_TRUE((memory_->sequences().Query(handle)->flags & layout::kSequenceEdited) != 0);
  ASSERT_TRUE(AppendTokens(*memory_, handle, 1, 1));
  EXPECT_EQ(memory_->sequences().Query(handle)->next_pos.value, 11);
  EXPECT_EQ(memory_->sequences().Query(handle)->pristine_cells, 3u);
}

TEST_F(MemoryTest, CuttingTheEditedTailMakesASequencePristineAgain) {
  const SequenceHandle handle = Make(10);
  ASSERT_TRUE(memory_->sequences().RemoveRange(handle, {Pos{3}, Pos{6}}));
  EXPECT_EQ(*memory_->sequences().RemoveRange(handle, {Pos{3}, kPosEnd}), 4u);
  EXPECT_EQ(memory_->sequences().Query(handle)->flags,
            static_cast<std::uint32_t>(layout::kSequenceLive));
  ASSERT_TRUE(AppendTokens(*memory_, handle, 1, 5));
  EXPECT_EQ(memory_->sequences().Query(handle)->pristine_cells, 8u);
}

TEST_F(MemoryTest, AShiftChangesNoForkAndAppendedCellsUseTheLastDelta) {
  const SequenceHandle handle = Make(40);
  const SequenceHandle fork = ForkOf(handle);
  const Contents before = ContentsOf(*memory_, fork);
  ASSERT_TRUE(memory_->sequences().RemoveRange(handle, {Pos{4}, Pos{20}}));
  ASSERT_TRUE(memory_->sequences().AddPositions(handle, {Pos{20}, kPosEnd}, -16));
  EXPECT_EQ(memory_->sequences().Query(handle)->next_pos.value, 24);
  EXPECT_EQ(memory_->sequences().QueryUse(handle)->delta_count, 2u);
  ASSERT_TRUE(AppendTokens(*memory_, handle, 1, 1));
  EXPECT_EQ(memory_->sequences().QueryUse(handle)->delta_count, 2u);
  EXPECT_EQ(memory_->sequences().Query(handle)->next_pos.value, 25);
  EXPECT_EQ(ContentsOf(*memory_, fork), before);
  EXPECT_EQ(ContentsOf(*memory_, handle).positions[24], 24);
}

TEST_F(MemoryTest, AShiftThatOverlapsReordersOrLeavesTheRangeIsRefused) {
  const SequenceHandle handle = Make(10);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{5}, kPosEnd}, -1)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{0}, Pos{5}}, 1)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{0}, Pos{5}}, -1)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{5}, kPosEnd}, kPosEnd.value)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{6}, Pos{5}}, 1)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{-1}, Pos{5}}, 1)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {Pos{50}, Pos{60}}, -100)), Code::kOk);
  EXPECT_EQ(memory_->sequences().Query(handle)->pristine_cells, 10u);
  EXPECT_EQ(memory_->sequences().Query(handle)->edit_number, 2u);
}

TEST_F(MemoryTest, CopyingAPrefixIntoAnEmptySequenceKeepsItPristine) {
  const SequenceHandle source = Make(40);
  const SequenceHandle destination = Make(0);
  EXPECT_EQ(*memory_->sequences().CopyRange(source, destination, {Pos{0}, Pos{35}}), 35u);
  EXPECT_EQ(memory_->sequences().Query(destination)->pristine_cells, 35u);
  EXPECT_EQ(memory_->sequences().CopyRange(source, destination, {Pos{34}, Pos{36}}).error().code,
            Code::kExists);
  EXPECT_EQ(*memory_->sequences().CopyRange(source, destination, {Pos{36}, kPosEnd}), 4u);
  EXPECT_EQ(memory_->sequences().Query(destination)->pristine_cells, 35u);
  EXPECT_EQ(*memory_->sequences().CopyRange(source, destination, {Pos{35}, Pos{36}}), 1u);
  EXPECT_EQ(ContentsOf(*memory_, destination), ContentsOf(*memory_, source));
  // Adjacent cells of one block are joined into one extent, although they were copied in three
  // calls.
  EXPECT_EQ(memory_->sequences().Query(destination)->extent_count, 2u);
}

TEST_F(MemoryTest, ACellReferredToTwiceByOneSequenceIsNotShared) {
  const SequenceHandle a = Make(10);
  const SequenceHandle b = ForkOf(a);
  ASSERT_TRUE(memory_->sequences().AddPositions(b, {}, 100));
  ASSERT_TRUE(memory_->sequences().CopyRange(b, a, {}));
  EXPECT_EQ(memory_->sequences().Query(a)->cell_count, 20u);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->shared_cells, 20u);
  ASSERT_TRUE(memory_->sequences().Drop(b));
  EXPECT_EQ(memory_->sequences().QueryUse(a)->shared_cells, 0u);
  EXPECT_EQ(memory_->Usage().live_cells, 10u);
}

TEST_F(MemoryTest, AStaleHandleIsNotFoundByAnyVerb) {
  const SequenceHandle handle = Make(5);
  ASSERT_TRUE(memory_->sequences().Drop(handle));
  const SequenceHandle next = Make(5);
  EXPECT_EQ(IndexOf(handle), IndexOf(next));
  EXPECT_NE(handle, next);
  SequenceHandle fork{};
  EXPECT_EQ(CodeOf(memory_->sequences().Drop(handle)), Code::kNotFound);
  EXPECT_EQ(CodeOf(memory_->sequences().Fork(handle, kOwner, {&fork, 1}, std::nullopt)),
            Code::kNotFound);
  EXPECT_EQ(CodeOf(memory_->sequences().Clear(handle)), Code::kNotFound);
  EXPECT_EQ(memory_->sequences().CopyRange(handle, next, {}).error().code, Code::kNotFound);
  EXPECT_EQ(memory_->sequences().CopyRange(next, handle, {}).error().code, Code::kNotFound);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(handle, {}, 1)), Code::kNotFound);
  EXPECT_EQ(CodeOf(memory_->sequences().SetOwner(handle, kOwner, 0, 0)), Code::kNotFound);
  EXPECT_EQ(CodeOf(memory_->sequences().Keep(handle, kOwner.session)), Code::kNotFound);
  EXPECT_EQ(memory_->snapshots().Publish(handle, kOwner, "x", false, false).error().code,
            Code::kNotFound);
  EXPECT_THAT(memory_->sequences().Query(handle).error().message,
              HasSubstr(std::to_string(static_cast<std::uint64_t>(handle))));
}

TEST_F(MemoryTest, NoSpaceNamesTheNumbersAndChangesNothing) {
  Use(SmallOptions(64));
  const SequenceHandle a = Make(40);
  const SequenceHandle b = Make(0);
  ASSERT_TRUE(memory_->sequences().SetOwner(
      a, kOwner, layout::kSequenceRetained | layout::kSequencePinned, 0));
  const Status status = AppendTokens(*memory_, b, 1, 1);
  EXPECT_EQ(status.error().code, Code::kNoSpace);
  EXPECT_EQ(status.error().message, "cells: 1 blocks needed, 0 free, 0 reclaimable");
  ASSERT_TRUE(memory_->sequences().SetOwner(a, kOwner, 0, layout::kSequencePinned));
  EXPECT_EQ(memory_->Usage().reclaimable_blocks, 2u);
}

TEST_F(MemoryTest, AnEditDuringAStepFailsOnlyThatSequence) {
  const SequenceHandle a = Make(40);
  const SequenceHandle b = Make(40);
  const std::vector<TokenId> tokens(30, 3);
  const AppendRequest requests[] = {{a, Pos{40}, tokens}, {b, Pos{40}, tokens}};
  StepPlan plan;
  ASSERT_TRUE(memory_->steps().Reserve(requests, plan));
  ASSERT_TRUE(memory_->sequences().RemoveRange(a, {Pos{39}, kPosEnd}));
  ASSERT_TRUE(memory_->sequences().SetOwner(b, kOwner, layout::kSequenceRetained, 0));
  EXPECT_EQ(CodeOf(memory_->steps().Commit(plan, 0)), Code::kConflict);
  EXPECT_EQ(CodeOf(memory_->steps().Commit(plan, 1)), Code::kOk);
  memory_->steps().EndStep(plan);
  EXPECT_EQ(memory_->sequences().Query(a)->cell_count, 39u);
  EXPECT_EQ(memory_->sequences().Query(b)->cell_count, 70u);
  EXPECT_EQ(memory_->Usage().free_blocks, 8u - 5u);
}

TEST_F(MemoryTest, BlocksDroppedDuringAStepAreFreeAtItsEnd) {
  const SequenceHandle a = Make(40);
  const SequenceHandle b = Make(1);
  const std::vector<TokenId> tokens(1, 3);
  const AppendRequest request{b, Pos{1}, tokens};
  StepPlan plan;
  ASSERT_TRUE(memory_->steps().Reserve({&request, 1}, plan));
  ASSERT_TRUE(memory_->sequences().Drop(a));
  EXPECT_EQ(memory_->Usage().free_blocks, 5u);
  memory_->steps().Abandon(plan, 0);
  memory_->steps().EndStep(plan);
  EXPECT_EQ(memory_->Usage().free_blocks, 7u);
}

TEST_F(MemoryTest, ASnapshotIsImmutableAndReplacedInOneCommit) {
  const SequenceHandle a = Make(40);
  const SequenceHandle first = *memory_->snapshots().Publish(a, kOwner, "prompt", true, false);
  EXPECT_EQ(memory_->snapshots().Publish(a, kOwner, "prompt", true, false).error().code,
            Code::kExists);
  EXPECT_EQ(CodeOf(memory_->sequences().Drop(first)), Code::kPermission);
  EXPECT_EQ(CodeOf(AppendTokens(*memory_, first, 1, 1)), Code::kPermission);
  const SequenceHandle fork = ForkOf(first);
  const SequenceHandle second = *memory_->snapshots().Publish(a, kOwner, "prompt", false, true);
  EXPECT_EQ(memory_->sequences().Query(first).error().code, Code::kNotFound);
  EXPECT_EQ(memory_->snapshots().Find("prompt", kOwner.id)->sequence, second);
  EXPECT_FALSE(memory_->snapshots().Find("prompt", kOwner.id)->is_public);
  EXPECT_EQ(memory_->sequences().Query(fork)->cell_count, 40u);
  ASSERT_TRUE(memory_->snapshots().Unpublish("prompt", kOwner.id));
  EXPECT_EQ(CodeOf(memory_->snapshots().Unpublish("prompt", kOwner.id)), Code::kNotFound);
  EXPECT_EQ(memory_->sequences().Query(second).error().code, Code::kNotFound);
  EXPECT_TRUE(memory_->snapshots().List().empty());
}

TEST_F(MemoryTest, KeepDropsOnlyTheOtherSequencesOfTheSession) {
  const SequenceHandle kept = Make(3);
  const SequenceHandle dropped = Make(3);
  const SequenceHandle published = *memory_->snapshots().Publish(kept, kOwner, "p", false, false);
  const SequenceHandle others = *memory_->sequences().Create({OwnerId{1000}, SessionId{8}, 0});
  EXPECT_EQ(CodeOf(memory_->sequences().Keep(others, kOwner.session)), Code::kPermission);
  ASSERT_TRUE(memory_->sequences().Keep(kept, kOwner.session));
  EXPECT_TRUE(memory_->sequences().Query(kept));
  EXPECT_TRUE(memory_->sequences().Query(published));
  EXPECT_TRUE(memory_->sequences().Query(others));
  EXPECT_FALSE(memory_->sequences().Query(dropped));
}

TEST_F(MemoryTest, DropAllDropsEverySequenceOrNone) {
  const SequenceHandle a = Make(3);
  const SequenceHandle b = Make(3);
  const SequenceHandle with_stale[] = {a, MakeHandle(IndexOf(b), 77)};
  EXPECT_EQ(CodeOf(memory_->sequences().DropAll(with_stale)), Code::kNotFound);
  const SequenceHandle twice[] = {a, b, a};
  EXPECT_EQ(CodeOf(memory_->sequences().DropAll(twice)), Code::kInvalidArgument);
  const SequenceHandle both[] = {a, b};
  EXPECT_EQ(CodeOf(memory_->sequences().DropAll(both)), Code::kOk);
  EXPECT_EQ(memory_->Usage().free_blocks, 8u);
}

class CopyingRotator : public CellRotator {
 public:
  explicit CopyingRotator(Code code = Code::kOk) : code_(code) {}
  Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos from, BlockId, std::uint32_t,
                    Pos to) override {
    moves.emplace_back(from.value, to.value);
    if (code_ != Code::kOk) return Fail(code_, "refused");
    return {};
  }
  std::vector<std::pair<int, int>> moves;

 private:
  Code code_;
};

TEST_F(MemoryTest, DivisionRewritesOnlyTheCellsOfTheRange) {
  const SequenceHandle a = Make(8);
  const SequenceHandle fork = ForkOf(a);
  // positions: 0..3, 8..11
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {Pos{4}, kPosEnd}, 4));
  CopyingRotator rotator;
  EXPECT_EQ(*DividePositions(*memory_, a, {Pos{8}, kPosEnd}, 2, rotator), 4u);
  EXPECT_THAT(ContentsOf(*memory_, a).positions, ElementsAre(0, 1, 2, 3, 4, 4, 5, 5));
  EXPECT_THAT(rotator.moves,
              ElementsAre(std::pair(4, 4), std::pair(5, 4), std::pair(6, 5), std::pair(7, 5)));
  EXPECT_EQ(memory_->sequences().QueryUse(a)->shared_cells, 4u);
  EXPECT_THAT(ContentsOf(*memory_, fork).positions, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(DividePositions(*memory_, a, {Pos{5}, kPosEnd}, 2, rotator).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(DividePositions(*memory_, a, {}, 0, rotator).error().code, Code::kInvalidArgument);
  EXPECT_EQ(*DividePositions(*memory_, a, {}, 1, rotator), 0u);
  const std::uint32_t free_blocks = memory_->Usage().free_blocks;
  CopyingRotator refusing(Code::kNumerical);
  EXPECT_EQ(DividePositions(*memory_, a, {}, 2, refusing).error().code, Code::kNumerical);
  EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);
}

TEST_F(MemoryTest, StepsAndPackingRunBetweenSlicesOfADivision) {
  const SequenceHandle whole = Make(40);
  const SequenceHandle sliced = ForkOf(whole);
  CopyingRotator rotator;
  ASSERT_TRUE(DividePositions(*memory_, whole, {}, 2, rotator));
  CellRewrite rewrite;
  ASSERT_TRUE(Into(
      memory_->rewrites().Begin(
          {.handle = sliced, .kind = RewriteRequest::Kind::kDivide, .range = {}, .divisor = 2}),
      &rewrite));
  const Contents before = ContentsOf(*memory_, sliced);
  const std::uint64_t commits = memory_->commit_number();
  for (std::uint32_t slice = 0; slice < 3; ++slice) {
    ASSERT_FALSE(*memory_->rewrites().Advance(rewrite, 12, rotator));
    EXPECT_EQ(ContentsOf(*memory_, sliced), before)
        << "no position is divided before the last slice";
  }
  EXPECT_EQ(memory_->commit_number(), commits);
  const SequenceHandle other = Make(5);  // runs a step
  ASSERT_TRUE(memory_->sequences().Drop(other));
  EXPECT_TRUE(*memory_->rewrites().Advance(rewrite, 12, rotator));
  EXPECT_EQ(ContentsOf(*memory_, sliced), ContentsOf(*memory_, whole));
  EXPECT_EQ(rotator.moves.size(), 80u);
}

TEST_F(MemoryTest, AnAbandonedOrOvertakenDivisionChangesNothing) {
  const SequenceHandle a = Make(40);
  const std::uint32_t free_blocks = memory_->Usage().free_blocks;
  CopyingRotator rotator;
  const auto begin = [&](CellRewrite* rewrite) {
    ASSERT_TRUE(
        Into(memory_->rewrites().Begin(
                 {.handle = a, .kind = RewriteRequest::Kind::kDivide, .range = {}, .divisor = 2}),
             rewrite));
    ASSERT_FALSE(*memory_->rewrites().Advance(*rewrite, 33, rotator));
    EXPECT_EQ(memory_->Usage().free_blocks, free_blocks - 2);
  };
  const Contents before = ContentsOf(*memory_, a);
  {
    CellRewrite given_up;
    begin(&given_up);
  }
  EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);
  EXPECT_EQ(ContentsOf(*memory_, a), before);
  CellRewrite rewrite;
  begin(&rewrite);
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {}, 1));
  const std::size_t rotated = rotator.moves.size();
  EXPECT_EQ(memory_->rewrites().Advance(rewrite, 1, rotator).error().code, Code::kConflict);
  EXPECT_EQ(rotator.moves.size(), rotated)
      << "the edit ends the rewrite before another cell is rotated";
  EXPECT_FALSE(rewrite.is_open());
  EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);
  EXPECT_EQ(memory_->sequences().Query(a)->next_pos.value, 41);
}

TEST_F(MemoryTest, ChangingTheRotationOfKeysRewritesOnlyKeysOfAnotherRotation) {
  const SequenceHandle a = Make(70);
  const SequenceHandle fork = ForkOf(a);
  CopyingRotator rotator;
  EXPECT_EQ(*ChangeKeyForm(*memory_, a, 0, rotator), 0u) << "all keys have form 0";
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {Pos{60}, kPosEnd}, 5));
  const Contents before = ContentsOf(*memory_, a);
  EXPECT_EQ(*ChangeKeyForm(*memory_, a, 1, rotator), 70u);
  EXPECT_EQ(rotator.moves.at(3), std::pair(3, 3));
  EXPECT_EQ(rotator.moves.back(), std::pair(69, 74)) << "the stored position is the effective one";
  EXPECT_EQ(ContentsOf(*memory_, a), before);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->shared_cells, 0u);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->delta_count, 1u);
  (void)memory_->TakeLooks();
  EXPECT_EQ(*ChangeKeyForm(*memory_, a, 1, rotator), 0u);
  EXPECT_EQ(memory_->TakeLooks().cells_at_once, 0u) << "the count for unchanged content is cached";
  const SequenceHandle later = ForkOf(a);
  EXPECT_EQ(
      *memory_->rewrites().Count(
          {.handle = later, .kind = RewriteRequest::Kind::kChangeForm, .range = {}, .key_form = 1}),
      0u);
  EXPECT_EQ(memory_->TakeLooks().cells_at_once, 70u) << "the count for new content is not cached";
  ASSERT_TRUE(memory_->sequences().Drop(later));

  // A sequence with cells of both forms: the run of cells that contains the other form is
  // rewritten.
  const SequenceHandle mixed = Make(10);
  ASSERT_TRUE(memory_->sequences().CopyRange(a, mixed, {Pos{20}, Pos{30}}).has_value());
  EXPECT_EQ(*ChangeKeyForm(*memory_, mixed, 0, rotator), 10u);
  EXPECT_EQ(*ChangeKeyForm(*memory_, fork, 0, rotator), 0u) << "a fork keeps the cells it has";

  EXPECT_EQ(ChangeKeyForm(*memory_, a, 2, rotator).error().code, Code::kInvalidArgument);
  EXPECT_EQ(ChangeKeyForm(*memory_, a, 0, rotator).error().code, Code::kNoSpace);
  ASSERT_TRUE(memory_->sequences().Drop(fork));
  CopyingRotator refusing(Code::kNumerical);
  EXPECT_EQ(ChangeKeyForm(*memory_, a, 0, refusing).error().code, Code::kNumerical);
  EXPECT_EQ(*ChangeKeyForm(*memory_, a, 1, rotator), 0u) << "nothing has changed";
}

TEST_F(MemoryTest, SettlingRewritesOnlyShiftedCells) {
  const SequenceHandle a = Make(70);
  const SequenceHandle fork = ForkOf(a);
  CopyingRotator rotator;
  EXPECT_EQ(*SettleCells(*memory_, a, SettleScope::kAll, rotator), 0u) << "nothing is shifted";
  ASSERT_TRUE(memory_->sequences().RemoveRange(a, {Pos{10}, Pos{40}}));
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {Pos{40}, Pos{60}}, -30));
  const Contents before = ContentsOf(*memory_, a);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->delta_count, 2u);
  EXPECT_EQ(*SettleCells(*memory_, a, SettleScope::kShifted, rotator), 20u);
  EXPECT_EQ(rotator.moves.size(), 20u);
  EXPECT_EQ(rotator.moves.front(), std::pair(40, 10));
  EXPECT_EQ(memory_->sequences().QueryUse(a)->delta_count, 1u);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->shared_cells, 20u);
  EXPECT_EQ(ContentsOf(*memory_, a), before);
  EXPECT_EQ(memory_->sequences().Query(fork)->cell_count, 70u);

  ASSERT_TRUE(memory_->sequences().AddPositions(a, {Pos{60}, kPosEnd}, 5));
  EXPECT_EQ(*SettleCells(*memory_, a, SettleScope::kAll, rotator), 40u);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->shared_cells, 0u);
  EXPECT_EQ(memory_->sequences().Query(a)->extent_count, 2u)
      << "the rewritten cells fill two new blocks in order";
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {}, 1));
  const std::uint32_t free_blocks = memory_->Usage().free_blocks;
  CopyingRotator refusing(Code::kNumerical);
  EXPECT_EQ(SettleCells(*memory_, a, SettleScope::kAll, refusing).error().code, Code::kNumerical);
  EXPECT_EQ(memory_->Usage().free_blocks, free_blocks);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->delta_count, 1u);
}

// A shift of whole extents keeps the extents of the list; a shift of a part of an extent cuts or
// joins extents. Shifts of whole extents and of parts of extents change exactly the positions of
// the range's cells.
TEST_F(MemoryTest, ShiftsOfCompleteAndPartialExtentsShiftTheSameCells) {
  const auto shift = [&](SequenceHandle handle, std::int32_t begin, std::int32_t delta) {
    Contents expected = ContentsOf(*memory_, handle);
    for (std::int32_t& pos : expected.positions) pos += pos >= begin ? delta : 0;
    ASSERT_TRUE(memory_->sequences().AddPositions(handle, {Pos{begin}, kPosEnd}, delta));
    EXPECT_EQ(ContentsOf(*memory_, handle), expected);
    ExpectConsistent();
  };
  const SequenceHandle a = Make(100);
  shift(a, 0, 7);
  EXPECT_EQ(memory_->sequences().Query(a)->extent_count, 4u);
  shift(a, 39, 3);  // all extents from the second block on
  EXPECT_EQ(memory_->sequences().Query(a)->extent_count, 4u);
  EXPECT_EQ(memory_->sequences().QueryUse(a)->delta_count, 2u);
  shift(a, 60, 1);  // cuts the extent of the second block
  EXPECT_EQ(memory_->sequences().Query(a)->extent_count, 5u);
  shift(a, 61, -1);  // joins the two parts again
  EXPECT_EQ(memory_->sequences().Query(a)->extent_count, 4u);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(a, {Pos{42}, kPosEnd}, -4)),
            Code::kInvalidArgument);
}

// A CellMover that counts moved cells and copies no bytes.
class CountingMover : public CellMover {
 public:
  void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                 std::uint32_t count) override {
    cells += count;
  }
  std::uint64_t cells = 0;
};

TEST_F(MemoryTest, PackingJoinsSparseBlocksAndKeepsSharing) {
  std::vector<SequenceHandle> handles;
  for (int i = 0; i < 8; ++i) handles.push_back(Make(4, 100 * (i + 1)));
  const SequenceHandle fork = ForkOf(handles[3]);
  ASSERT_TRUE(memory_->sequences().AddPositions(fork, {}, 5));
  std::vector<Contents> before;
  for (const SequenceHandle handle : handles) before.push_back(ContentsOf(*memory_, handle));
  const Contents shifted = ContentsOf(*memory_, fork);
  EXPECT_EQ(memory_->Usage().free_blocks, 0u);
  EXPECT_EQ(memory_->block_packer().Advance(1000, *std::make_unique<CountingMover>())->is_done,
            true)
      << "without a free block nothing can be packed";

  ASSERT_TRUE(memory_->sequences().Drop(handles[7]));
  handles.pop_back();
  CountingMover mover;
  const DefragSlice slice = *memory_->block_packer().Advance(1000, mover);
  EXPECT_EQ(slice.cells_moved, 28u);
  EXPECT_EQ(mover.cells, 28u);
  EXPECT_EQ(slice.sequences_rewritten, 8u);
  EXPECT_EQ(slice.blocks_freed, 6u);
  EXPECT_EQ(memory_->Usage().free_blocks, 7u);
  EXPECT_EQ(memory_->Usage().live_cells, 28u);
  EXPECT_EQ(memory_->sequences().QueryUse(fork)->shared_cells, 4u);
  EXPECT_EQ(ContentsOf(*memory_, fork), shifted);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(ContentsOf(*memory_, handles[i]), before[i]);
    EXPECT_EQ(memory_->sequences().Query(handles[i])->pristine_cells, 4u);
  }
  EXPECT_EQ(memory_->block_packer().Advance(1000, mover)->cells_moved, 28u)
      << "cells move from the last block to the first";
  EXPECT_TRUE(memory_->block_packer().Advance(1000, mover)->is_done);
}

// Calls `edit` once, in the first MoveCells call.
class EditingMover : public CountingMover {
 public:
  explicit EditingMover(std::function<void()> edit) : edit_(std::move(edit)) {}
  void MoveCells(std::uint32_t group, BlockId from, std::uint32_t from_cell, BlockId to,
                 std::uint32_t to_cell, std::uint32_t count) override {
    CountingMover::MoveCells(group, from, from_cell, to, to_cell, count);
    if (edit_) std::exchange(edit_, nullptr)();
  }

 private:
  std::function<void()> edit_;
};

TEST_F(MemoryTest, VerbsCanRunWhileASliceIsPacked) {
  std::vector<SequenceHandle> handles;
  for (int i = 0; i < 6; ++i) handles.push_back(Make(4, 100 * (i + 1)));
  const Contents first = ContentsOf(*memory_, handles[0]);
  SequenceHandle fork{};
  EditingMover mover([&] {
    fork = ForkOf(handles[0]);
    ASSERT_TRUE(memory_->sequences().AddPositions(handles[1], {}, 9));
    ASSERT_TRUE(memory_->sequences().RemoveRange(handles[2], {Pos{1}, Pos{2}}));
    ASSERT_TRUE(memory_->sequences().Drop(handles[3]));
    ASSERT_TRUE(memory_->sequences().Drop(handles[0]));
  });
  ASSERT_TRUE(memory_->block_packer().Advance(1000, mover));
  EXPECT_EQ(ContentsOf(*memory_, fork), first);
  EXPECT_EQ(ContentsOf(*memory_, handles[1]).positions, (std::vector<std::int32_t>{9, 10, 11, 12}));
  EXPECT_EQ(ContentsOf(*memory_, handles[2]).tokens, (std::vector<TokenId>{300, 302, 303}));
  EXPECT_EQ(memory_->Usage().live_cells, 4u + 4u + 3u + 4u + 4u);
  EXPECT_EQ(memory_->Usage().free_blocks, memory_->Usage().total_blocks - 1);
}

TEST_F(MemoryTest, PackingMovesCellsFromTheEndOfThePoolForward) {
  const SequenceHandle first = Make(96);
  const SequenceHandle last = Make(64, 1000);
  const Contents before = ContentsOf(*memory_, last);
  ASSERT_TRUE(memory_->sequences().Drop(first));
  CountingMover mover;
  EXPECT_EQ(memory_->block_packer().Advance(1000, mover)->cells_moved, 64u);
  EXPECT_TRUE(memory_->is_free_block(0, 3));
  EXPECT_TRUE(memory_->is_free_block(0, 4));
  EXPECT_EQ(ContentsOf(*memory_, last), before);
  EXPECT_TRUE(memory_->block_packer().Advance(1000, mover)->is_done);
}

TEST_F(MemoryTest, AThousandForksAreOneCommit) {
  MemoryOptions options = SmallOptions(256);
  options.sequence_capacity = 2000;
  Use(options);
  const SequenceHandle source = Make(100);
  std::vector<SequenceHandle> forks(layout::kForksMax);
  ASSERT_TRUE(memory_->sequences().Fork(source, kOwner, forks, std::nullopt));
  EXPECT_EQ(memory_->Usage().live_cells, 100u);
  EXPECT_EQ(memory_->Usage().live_sequences, 1025u);
  forks.resize(layout::kForksMax + 1);
  EXPECT_EQ(CodeOf(memory_->sequences().Fork(source, kOwner, forks, std::nullopt)),
            Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory_->sequences().Fork(source, kOwner, {}, std::nullopt)),
            Code::kInvalidArgument);
  forks.resize(layout::kForksMax);
  EXPECT_EQ(CodeOf(memory_->sequences().Fork(source, kOwner, forks, std::nullopt)), Code::kNoSpace);
  ASSERT_TRUE(memory_->sequences().Keep(source, kOwner.session));
  EXPECT_EQ(memory_->Usage().live_sequences, 1u);
}

}  // namespace
}  // namespace kvd
