// Tests holds and restores: the validation of a restore request, and that a restore that fails
// changes nothing. memory_kinds_model_test covers holds and restores among all other verbs for
// every kind of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/memory/holds_and_restores.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/support/into.h"

namespace kvd {
namespace {

using testing::HasSubstr;

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() {
    MemoryOptions options = SmallOptions(256);
    options.groups.push_back({.cells = 256, .layers = {{1, 2, 2}}, .window = 8});
    options.state_bytes = 64;
    options.state_slots = 4;
    options.checkpoint_slots = 2;
    options.logits_bytes = 16;
    options.logits_rows = 1;
    memory_ = MakeMemory(options);
    handle_ = *memory_->sequences().Create(kOwner);
    for (std::int32_t at = 0; at < 40; ++at) {
      tokens_.push_back(at);
      positions_.push_back(Pos{at * 2});
    }
    request_ = {.handle = handle_, .tokens = tokens_, .positions = positions_, .has_state = true};
  }
  void TearDown() override {
    const MetaCopy copy(memory_->meta_bytes());
    const Result<DerivedTables> rebuilt = RebuildTables(copy.bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    EXPECT_TRUE(*rebuilt == memory_->derived());
  }
  void ExpectRefused(Code code, const char* text) {
    const PoolUsage before = memory_->Usage();
    Restore restore;
    const Status status = Into(memory_->restores().Begin(request_), &restore);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr(text));
    EXPECT_FALSE(restore.reservation.is_open());
    EXPECT_EQ(memory_->Usage().free_blocks, before.free_blocks);
    EXPECT_EQ(memory_->Usage().free_state_slots, before.free_state_slots);
  }

  std::unique_ptr<Memory> memory_;
  SequenceHandle handle_ = SequenceHandle::kNone;
  std::vector<TokenId> tokens_;
  std::vector<Pos> positions_;
  RestoreRequest request_;
};

TEST_F(RestoreTest, ARestoredSequenceContinuesWhereTheSavedOneEnded) {
  request_.pristine_cells = 1;
  const std::uint32_t checkpoints[] = {5, 12, 40};
  request_.checkpoint_cells = checkpoints;
  request_.has_logits = true;
  Restore restore;
  ASSERT_TRUE(Into(memory_->restores().Begin(request_), &restore));
  EXPECT_EQ(memory_->sequences().Query(handle_)->cell_count, 0u)
      << "the sequence is empty before the commit";
  ASSERT_EQ(restore.checkpoints.size(), 2u) << "the pool has two checkpoint slots";
  EXPECT_EQ(restore.checkpoints[0].cell_count, 12u);
  EXPECT_EQ(restore.checkpoints[1].state_slot, restore.state_slot);
  EXPECT_EQ(restore.parts[1].first_cell, 36u)
      << "the window of position 80 contains positions 72, 74, 76 and 78";
  ASSERT_TRUE(memory_->restores().Commit(restore));
  const Contents contents = ContentsOf(*memory_, handle_);
  EXPECT_EQ(contents.tokens, tokens_);
  EXPECT_EQ(contents.positions.back(), 78);
  const SequenceInfo info = *memory_->sequences().Query(handle_);
  EXPECT_EQ(info.next_pos.value, 79);
  EXPECT_EQ(info.pristine_cells, 1u);
  EXPECT_NE(info.flags & layout::kSequenceEdited, 0u);
  EXPECT_EQ(info.checkpoint_count, 2u);
  float row[4];
  EXPECT_TRUE(*memory_->states().ReadLogits(handle_, row));
  ASSERT_TRUE(AppendTokens(*memory_, handle_, 500, 30));
  EXPECT_EQ(memory_->sequences().Query(handle_)->cell_count, 70u);
}

TEST_F(RestoreTest, AnAbandonedRestoreLeavesNoCells) {
  const PoolUsage before = memory_->Usage();
  Restore restore;
  ASSERT_TRUE(Into(memory_->restores().Begin(request_), &restore));
  EXPECT_LT(memory_->Usage().free_blocks, before.free_blocks);
  restore.reservation.End();
  EXPECT_EQ(memory_->Usage().free_blocks, before.free_blocks);
  EXPECT_EQ(memory_->Usage().free_state_slots, before.free_state_slots);
  EXPECT_EQ(memory_->sequences().Query(handle_)->cell_count, 0u);
}

TEST_F(RestoreTest, ASequenceChangedDuringARestoreIsAConflict) {
  for (const bool drops : {false, true}) {
    Restore restore;
    ASSERT_TRUE(Into(memory_->restores().Begin(request_), &restore));
    if (drops) {
      ASSERT_TRUE(memory_->sequences().Drop(handle_));
    } else {
      ASSERT_TRUE(AppendTokens(*memory_, handle_, 1, 3));
    }
    const PoolUsage before = memory_->Usage();
    const Status status = memory_->restores().Commit(restore);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kConflict) << status.error().message;
    EXPECT_GT(memory_->Usage().free_blocks, before.free_blocks);
    if (!drops) {
      ASSERT_TRUE(memory_->sequences().Clear(handle_));
    }
  }
}

TEST_F(RestoreTest, NumbersOutOfTheirRangeAreNamed) {
  const std::uint32_t falling[] = {5, 5};
  const std::uint32_t behind[] = {41};
  const RestoreRequest good = request_;
  std::vector<Pos> positions = positions_;
  positions[3] = Pos{-1};
  struct Case {
    std::function<void(RestoreRequest&)> damage;
    Code code;
    const char* text;
  };
  const Case cases[] = {
      {[&](auto& r) { r.positions = r.positions.first(39); }, Code::kInvalidArgument, "positions"},
      {[&](auto& r) { r.positions = positions; }, Code::kInvalidArgument, "position of cell 3: -1"},
      {[](auto& r) { r.key_form = 2; }, Code::kInvalidArgument, "key form: 2"},
      {[](auto& r) { r.pristine_cells = 41; }, Code::kInvalidArgument, "pristine cells: 41"},
      {[](auto& r) { r.pristine_cells = 2; }, Code::kInvalidArgument, "cell 1 is at another"},
      {[](auto& r) { r.first_cell[0] = 1; }, Code::kInvalidArgument, "first cell of group 0: 1"},
      {[](auto& r) { r.first_cell[1] = 41; }, Code::kInvalidArgument, "first cell of group 1: 41"},
      {[](auto& r) { r.first_cell[1] = 39; }, Code::kWindowLost, "window of 8"},
      {[&](auto& r) { r.checkpoint_cells = falling; }, Code::kInvalidArgument, "checkpoint: 5"},
      {[&](auto& r) { r.checkpoint_cells = behind; }, Code::kInvalidArgument, "checkpoint: 41"},
      {[](auto& r) { r.has_state = false; }, Code::kInvalidArgument, "recurrent state"},
      {[](auto& r) { r.tokens = {}, r.positions = {}; }, Code::kInvalidArgument, "without cells"},
      {[](auto& r) { r.cross_tokens = r.tokens; }, Code::kUnsupported, "no encoder"},
      {[](auto& r) { r.handle = MakeHandle(3, 99); }, Code::kNotFound, "no such handle"},
  };
  for (const Case& at : cases) {
    request_ = good;
    at.damage(request_);
    ExpectRefused(at.code, at.text);
  }
  request_ = good;
  positions[3] = Pos{std::numeric_limits<std::int32_t>::max()};
  request_.tokens = request_.tokens.first(4);
  request_.positions = std::span<const Pos>(positions).first(4);
  ExpectRefused(Code::kInvalidArgument, "position of cell 3: 2147483647");
}

TEST_F(RestoreTest, OnlyAnEmptySequenceCanBeRestored) {
  ASSERT_TRUE(AppendTokens(*memory_, handle_, 1, 3));
  ExpectRefused(Code::kExists, "holds 3 cells");
  ASSERT_TRUE(memory_->sequences().Clear(handle_));
  request_.handle = *memory_->snapshots().Publish(handle_, kOwner, "name", true, false);
  ExpectRefused(Code::kPermission, "published");
}

TEST_F(RestoreTest, TheErrorForMissingRoomHasTheNumbers) {
  tokens_.resize(300);
  positions_.clear();
  for (std::int32_t at = 0; at < 300; ++at) positions_.push_back(Pos{at});
  request_.tokens = tokens_;
  request_.positions = positions_;
  ExpectRefused(Code::kNoSpace, "10 blocks needed, 8 free");
  request_.tokens = request_.tokens.first(3);
  request_.positions = request_.positions.first(3);
  for (int taken = 0; taken < 4; ++taken) {
    ASSERT_TRUE(AppendTokens(*memory_, *memory_->sequences().Create(kOwner), 1, 1));
  }
  ExpectRefused(Code::kNoSpace, "state slots: 1 needed, 0 free");
}

TEST_F(RestoreTest, TwoRestoresAndAStepShareNoBlock) {
  Restore first, second;
  ASSERT_TRUE(Into(memory_->restores().Begin(request_), &first));
  RestoreRequest other = request_;
  other.handle = *memory_->sequences().Create(kOwner);
  ASSERT_TRUE(Into(memory_->restores().Begin(other), &second));
  const SequenceHandle stepped = *memory_->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory_, stepped, 1, 60));
  ASSERT_TRUE(memory_->restores().Commit(second));
  ASSERT_TRUE(memory_->restores().Commit(first));
  EXPECT_EQ(memory_->Usage().live_cells, 140u);
}

TEST_F(RestoreTest, HeldCellsStayWhenTheirTailIsRemovedAndWrittenAgain) {
  ASSERT_TRUE(AppendTokens(*memory_, handle_, 1, 20));
  SequenceHold hold;
  ASSERT_TRUE(memory_->holds().Begin(handle_, &hold));
  const layout::Extent extent = hold.parts[0].extents[0];
  ASSERT_TRUE(memory_->sequences().Clear(handle_));
  ASSERT_TRUE(AppendTokens(*memory_, handle_, 700, 20));
  EXPECT_EQ(memory_->BlockCells(0, BlockId{extent.block})[19].token, 20);
  const std::uint32_t free_blocks = memory_->Usage().free_blocks;
  memory_->holds().Release(hold);
  EXPECT_EQ(memory_->Usage().free_blocks, free_blocks + 1);
  SequenceHold none;
  EXPECT_EQ(memory_->holds().Begin(MakeHandle(3, 99), &none).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace kvd
