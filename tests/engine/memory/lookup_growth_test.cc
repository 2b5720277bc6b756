// The number of records that queries and verbs read does not grow with the number of sequences of
// other owners, and functions that list records hold the mutex for one portion at a time. The test
// counts reads in memories of two sizes.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

constexpr SequenceOwner kOwn{OwnerId{1000}, SessionId{1}, 0};
constexpr SequenceOwner kOtherOwner{OwnerId{1001}, SessionId{2}, 0};

class LookupGrowthTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  LookupGrowthTest() {
    MemoryOptions options = SmallOptions(64 * 32);
    options.sequence_capacity = 16'100;
    options.snapshot_capacity = 512;
    options.session_capacity = 300;
    memory_ = MakeMemory(options);
    for (std::uint32_t made = 0; made < GetParam(); ++made)
      (void)*memory_->sequences().Create(kOwn);
    for (int number = 0; number < 200; ++number) {
      const auto name = std::to_string(number);
      EXPECT_TRUE(memory_->snapshots().Publish(*memory_->sequences().Create(kOwn), kOwn, name,
                                               number % 2 == 0, false));
    }
    for (std::uint64_t id = 1; id <= 300; ++id) {
      EXPECT_TRUE(memory_->sessions().Open({.id = SessionId{id}}));
    }
    for (int made = 0; made < 4; ++made)
      handles_.push_back(*memory_->sequences().Create(kOtherOwner));
    (void)memory_->TakeLooks();
  }

  std::unique_ptr<Memory> memory_;
  std::vector<SequenceHandle> handles_;  // sequences of kOtherOwner
};

TEST_P(LookupGrowthTest, RequestsOfASessionVisitOnlyItsOwnSequences) {
  const RequestTag request{.session = SessionId{2}, .request = RequestId{9}, .kind = 1};
  EXPECT_EQ(memory_->sequences().UseOf(kOtherOwner.id), (OwnerUse{.sequences = 4}));
  EXPECT_TRUE(memory_->sequences().Create(kOtherOwner, request));
  EXPECT_EQ(memory_->sessions().CreatedBy(SessionId{2}, RequestId{9}).size(), 1u);
  EXPECT_EQ(memory_->sessions().LastRequest(SessionId{2}), RequestId{9});
  EXPECT_EQ(memory_->sessions().Last(), SessionId{300});
  EXPECT_EQ(memory_->sequences().ListOf(SessionId{2}).size(), 5u);
  EXPECT_TRUE(memory_->sequences().RetainedOf(kOtherOwner.id).empty());
  EXPECT_TRUE(memory_->snapshots().Publish(handles_[0], kOtherOwner, "mine", true, false));
  SequenceHandle fork{};
  EXPECT_TRUE(memory_->sequences().Fork(handles_[0], kOtherOwner, {&fork, 1}));
  EXPECT_TRUE(memory_->sequences().Keep(handles_[0], SessionId{2}));
  EXPECT_EQ(memory_->sequences().UseOf(kOtherOwner.id).sequences,
            2u);  // the kept sequence and the snapshot
  EXPECT_EQ(memory_->TakeLooks().records, 1u + 5u + 7u);
}

TEST_P(LookupGrowthTest, AListVisitsEachRecordOnceAndAPortionUnderEachLock) {
  const std::uint64_t live = memory_->Usage().live_sequences;
  const std::vector<SequenceInfo> all = memory_->sequences().List();
  EXPECT_EQ(all.size(), live);
  EXPECT_TRUE(std::ranges::is_sorted(
      all, {}, [](const SequenceInfo& info) { return IndexOf(info.handle); }));
  EXPECT_EQ(std::ranges::count_if(all, &SequenceInfo::is_public), 100);
  auto looks = memory_->TakeLooks();
  EXPECT_EQ(looks.records, live);
  EXPECT_EQ(looks.records_at_once, Sequences::kListedAtOnce);
  EXPECT_EQ(memory_->snapshots().List().size(), 200u);
  EXPECT_EQ(memory_->sessions().List().size(), 300u);
  looks = memory_->TakeLooks();
  EXPECT_EQ(looks.records, 200u + 300u);
  EXPECT_EQ(looks.records_at_once, Sequences::kListedAtOnce);
}

// Every sequence has one cell, so every used block is sparse and a defragmentation reads every
// list.
TEST(DefragmentGrowthTest, ASliceVisitsAPortionOfTheListsUnderEachLock) {
  struct Mover final : CellMover {
    void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                   std::uint32_t) override {}
  } mover;
  for (const std::uint32_t count : {500u, 8'000u}) {
    MemoryOptions options = SmallOptions(8'192 * 32);
    options.sequence_capacity = 16'100;
    const auto memory = MakeMemory(options);
    std::vector<SequenceHandle> handles;
    for (std::uint32_t made = 0; made < count; ++made) {
      handles.push_back(*memory->sequences().Create(kOwn));
      ASSERT_TRUE(AppendTokens(*memory, handles.back(), static_cast<TokenId>(made), 1));
    }
    (void)memory->TakeLooks();
    const Result<DefragSlice> slice = memory->block_packer().Advance(256, mover);
    ASSERT_TRUE(slice.has_value());
    EXPECT_EQ(slice->cells_moved, 256u);
    EXPECT_EQ(slice->sequences_rewritten, 256u);
    const std::uint64_t at_once = memory->TakeLooks().extents_at_once;
    EXPECT_GE(at_once, 1'000u);
    EXPECT_LE(at_once, 2'049u);  // a portion may exceed its limit by the last list
    for (std::uint32_t at = 0; at < count; ++at) {
      ASSERT_EQ(ContentsOf(*memory, handles[at]).tokens,
                std::vector<TokenId>{static_cast<TokenId>(at)});
    }
  }
}

// ReadCells reads the cells of a short sequence (100 cells) under the mutex and those of a long one
// (2,000 cells) without it.
TEST(ReadCellsTest, ManyCellsAreReadWithoutTheLock) {
  const auto memory = MakeMemory(SmallOptions(64 * 32));
  const SequenceHandle handle = *memory->sequences().Create(kOwn);
  constexpr TokenId kFirst = 7;
  ASSERT_TRUE(AppendTokens(*memory, handle, kFirst, 100));
  (void)memory->TakeLooks();
  EXPECT_EQ(ContentsOf(*memory, handle).tokens.size(), 100u);
  EXPECT_EQ(memory->TakeLooks().cells_at_once, 100u);
  ASSERT_TRUE(AppendTokens(*memory, handle, kFirst + 100, 1'900));
  ASSERT_TRUE(memory->sequences().AddPositions(handle, {Pos{1'000}, Pos{2'000}}, 5));
  const std::uint32_t free_blocks = memory->Usage().free_blocks;
  const Contents all = ContentsOf(*memory, handle);
  EXPECT_EQ(memory->TakeLooks().cells_at_once, 0u);
  ASSERT_EQ(all.tokens.size(), 2'000u);
  for (std::int32_t at = 0; at < 2'000; ++at) {
    const auto cell = static_cast<std::size_t>(at);
    ASSERT_EQ(all.tokens[cell], kFirst + at);
    ASSERT_EQ(all.positions[cell], at < 1'000 ? at : at + 5);
  }
  // ReadCells also reads a part up to the end of the sequence, and it leaves no block held.
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  ASSERT_TRUE(memory->holds().ReadCells(handle, 900, 5'000, &tokens, &positions));
  EXPECT_TRUE(std::ranges::equal(tokens, std::span(all.tokens).subspan(900)));
  ASSERT_TRUE(memory->holds().ReadCells(handle, 2'000, 5'000, &tokens, &positions));
  EXPECT_TRUE(tokens.empty());
  EXPECT_EQ(memory->Usage().free_blocks, free_blocks);
  ASSERT_TRUE(memory->sequences().Drop(handle));
  EXPECT_EQ(memory->Usage().free_blocks, memory->Usage().total_blocks);
}

INSTANTIATE_TEST_SUITE_P(Sizes, LookupGrowthTest, testing::Values(1'000, 15'600));

}  // namespace
}  // namespace kvd
