// Tests the history of a sequence: its parent and its last 32 edits.
#include "engine/memory/record_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/rewrite_all.h"

namespace kvd {
namespace {

using layout::kEditsKept;

// A CellRotator that rotates no keys: the rows keep their bytes.
struct IdleRotator final : CellRotator {
  Status RotateCell(std::uint32_t, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                    Pos) override {
    return {};
  }
};

struct IdleMover final : CellMover {
  void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                 std::uint32_t) override {}
};

SequenceEdit Edit(layout::EditKind kind, std::int32_t first, std::int32_t end,
                  std::int32_t delta = 0, std::uint16_t request_kind = 0) {
  return {.unix_ms = 0,
          .range = {Pos{first}, Pos{end}},
          .delta = delta,
          .kind = kind,
          .request_kind = request_kind};
}

RequestTag Kind(std::uint16_t kind) { return {.session = SessionId{7}, .kind = kind}; }

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() : memory_(MakeMemory(SmallOptions(512))) {
    base_ = *memory_->sequences().Create(kOwner);
    EXPECT_TRUE(AppendTokens(*memory_, base_, 100, 70));
  }

  SequenceHandle ForkOf(SequenceHandle source, std::optional<std::uint32_t> cells = {}) {
    SequenceHandle fork{};
    EXPECT_TRUE(memory_->sequences().Fork(source, kOwner, {&fork, 1}, cells));
    return fork;
  }
  SequenceHistory HistoryOf(SequenceHandle handle) {
    return *memory_->sequences().QueryHistory(handle);
  }
  // Returns the edits with unix_ms set to 0.
  std::vector<SequenceEdit> EditsOf(SequenceHandle handle) {
    std::vector<SequenceEdit> edits = HistoryOf(handle).edits;
    for (SequenceEdit& edit : edits) edit.unix_ms = 0;
    return edits;
  }

  std::unique_ptr<Memory> memory_;
  SequenceHandle base_{};
};

TEST_F(HistoryTest, AForkHasAParentAndItsOwnHistory) {
  EXPECT_EQ(HistoryOf(base_).parent, SequenceHandle::kNone);
  EXPECT_EQ(HistoryOf(base_).parent_cells, 0u);
  ASSERT_TRUE(memory_->sequences().RemoveRange(base_, {Pos{60}, kPosEnd}));
  const SequenceHandle whole = ForkOf(base_);
  const SequenceHandle part = ForkOf(whole, 25);
  EXPECT_EQ(HistoryOf(whole).parent, base_);
  EXPECT_EQ(HistoryOf(whole).parent_cells, 60u);
  EXPECT_EQ(HistoryOf(part).parent, whole);
  EXPECT_EQ(HistoryOf(part).parent_cells, 25u);
  EXPECT_EQ(HistoryOf(base_).edit_count, 1u);
  EXPECT_EQ(HistoryOf(whole).edit_count, 0u);
  EXPECT_TRUE(HistoryOf(part).edits.empty());
  // Neither later edits of the parent nor the drop of the parent change the fork's history.
  ASSERT_TRUE(memory_->sequences().RemoveRange(whole, {Pos{5}, kPosEnd}));
  EXPECT_EQ(HistoryOf(part).parent_cells, 25u);
  ASSERT_TRUE(memory_->sequences().Drop(whole));
  EXPECT_EQ(HistoryOf(part).parent, whole) << "the parent is dropped";
}

TEST_F(HistoryTest, ASnapshotIsTheParentOfItsForks) {
  const SequenceHandle published =
      *memory_->snapshots().Publish(base_, kOwner, "snap", true, false);
  EXPECT_EQ(HistoryOf(published).parent, base_);
  EXPECT_EQ(HistoryOf(ForkOf(published)).parent, published);
}

TEST_F(HistoryTest, EachEditIsRecordedWithItsVerbAndPositions) {
  const SequenceHandle fork = ForkOf(base_);
  IdleRotator rotator;
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{10}, Pos{20}}, Kind(7)));
  ASSERT_TRUE(memory_->sequences().AddPositions(fork, {Pos{20}, kPosEnd}, -10, Kind(10)));
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{50}, Pos{90}}));
  ASSERT_TRUE(DividePositions(*memory_, fork, {}, 2, rotator));
  ASSERT_TRUE(memory_->sequences().Clear(fork, Kind(9)));
  ASSERT_TRUE(memory_->sequences().CopyRange(base_, fork, {Pos{3}, Pos{7}}, Kind(6)));
  // A shift of whole extents is implemented separately (ShiftWholeExtents).
  ASSERT_TRUE(memory_->sequences().AddPositions(fork, {}, 5));
  EXPECT_THAT(EditsOf(fork),
              testing::ElementsAre(
                  Edit(layout::kEditRemoved, 10, 20, 0, 7),
                  Edit(layout::kEditShifted, 20, 70, -10, 10), Edit(layout::kEditRemoved, 50, 60),
                  Edit(layout::kEditDivided, 0, 50, 2), Edit(layout::kEditRemoved, 0, 25, 0, 9),
                  Edit(layout::kEditCopied, 3, 7, 0, 6), Edit(layout::kEditShifted, 3, 7, 5)));
  const SequenceHistory history = HistoryOf(fork);
  EXPECT_EQ(history.edit_count, 7u);
  EXPECT_EQ(history.parent, base_);
  for (const SequenceEdit& edit : history.edits) {
    EXPECT_GE(edit.unix_ms, history.sequence.created_unix_ms);
  }
  EXPECT_TRUE(EditsOf(base_).empty());
}

TEST_F(HistoryTest, ChangesThatMoveNoCellAreNotEdits) {
  const SequenceHandle fork = ForkOf(base_, 33);
  IdleRotator rotator;
  IdleMover mover;
  ASSERT_TRUE(AppendTokens(*memory_, fork, 500, 9));
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{500}, kPosEnd}));
  ASSERT_TRUE(memory_->sequences().AddPositions(fork, {}, 0));
  ASSERT_TRUE(DividePositions(*memory_, fork, {}, 1, rotator));
  ASSERT_TRUE(memory_->sequences().SetOwner(fork, kOwner, layout::kSequencePinned, 0));
  ASSERT_FALSE(memory_->sequences().AddPositions(fork, {Pos{5}, kPosEnd}, -10));
  ASSERT_FALSE(memory_->sequences().CopyRange(base_, fork, {}));
  EXPECT_EQ(HistoryOf(fork).edit_count, 0u);
  ASSERT_TRUE(memory_->sequences().AddPositions(fork, {Pos{5}, kPosEnd}, 10));
  ASSERT_TRUE(SettleCells(*memory_, fork, SettleScope::kAll, rotator));
  ASSERT_TRUE(memory_->sequences().Drop(base_));
  for (bool moves = true; moves;) {
    const auto moved = memory_->block_packer().Advance(64, mover);
    ASSERT_TRUE(moved);
    moves = !moved->is_done;
  }
  EXPECT_EQ(HistoryOf(fork).edit_count, 1u);
}

TEST_F(HistoryTest, CellsRemovedByRetainingAreAnEdit) {
  const SequenceHandle fork = ForkOf(base_);
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{40}, Pos{50}}));
  ASSERT_TRUE(*memory_->prefixes().Retain(fork, Kind(29)));
  EXPECT_THAT(EditsOf(fork), testing::ElementsAre(Edit(layout::kEditRemoved, 40, 50),
                                                  Edit(layout::kEditRemoved, 50, 70, 0, 29)));
}

TEST_F(HistoryTest, OfFortyEditsTheLastThirtyTwoAreKept) {
  const SequenceHandle fork = ForkOf(base_);
  std::vector<SequenceEdit> all;
  for (std::int32_t number = 0; number < 40; ++number) {
    const std::int32_t last = 69 - number;
    ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{last}, kPosEnd},
                                                 Kind(static_cast<std::uint16_t>(number))));
    all.push_back(
        Edit(layout::kEditRemoved, last, last + 1, 0, static_cast<std::uint16_t>(number)));
  }
  EXPECT_EQ(HistoryOf(fork).edit_count, 40u);
  EXPECT_EQ(EditsOf(fork), std::vector<SequenceEdit>(all.end() - kEditsKept, all.end()));
  // A new sequence in the same record starts with an empty history.
  ASSERT_TRUE(memory_->sequences().Drop(fork));
  const SequenceHandle next = ForkOf(base_);
  ASSERT_EQ(IndexOf(next), IndexOf(fork));
  EXPECT_TRUE(EditsOf(next).empty());
}

TEST_F(HistoryTest, TheCountOfEditsWrapsWithoutLosingAnEdit) {
  const MetaCopy copy(memory_->meta_bytes());
  auto segments = MemorySegments::CreateAnonymous(*ComputeGeometry(SmallOptions(512)));
  std::ranges::copy(copy.bytes(), segments->meta.view().bytes().begin());
  const MetaView meta = segments->meta.view();
  meta.sequences()[0].edit_count = ~0u;
  for (layout::EditRecord& edit : meta.history(0)) {
    edit.end = 1;
    edit.kind = layout::kEditRemoved;
  }
  std::vector<LostSequence> lost;
  memory_ = std::move(*Memory::Attach(std::move(*segments), {}, &lost));
  ASSERT_TRUE(lost.empty());
  for (const std::int32_t last : {69, 68}) {
    ASSERT_TRUE(memory_->sequences().RemoveRange(base_, {Pos{last}, kPosEnd}));
    EXPECT_EQ(EditsOf(base_).size(), kEditsKept);
    EXPECT_EQ(EditsOf(base_).back(), Edit(layout::kEditRemoved, last, last + 1));
  }
  EXPECT_EQ(EditsOf(base_).end()[-2], Edit(layout::kEditRemoved, 69, 70));
}

// Examines the bytes of `meta` that a kill would leave at each moment of the commit.
TEST_F(HistoryTest, AnEditIsRecordedIfAndOnlyIfItIsApplied) {
  const SequenceHandle fork = ForkOf(base_);
  for (std::uint32_t number = 0; number < kEditsKept; ++number) {
    ASSERT_TRUE(memory_->sequences().AddPositions(fork, {}, 1));
  }
  const std::uint32_t index = IndexOf(fork);
  std::vector<MetaCopy> moments;
  memory_->commit_log_for_test().set_probe_for_test(
      [&](CommitLog::Moment) { moments.emplace_back(memory_->meta_bytes()); });
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork, {Pos{90}, kPosEnd}));
  memory_->commit_log_for_test().set_probe_for_test({});
  int without = 0;
  int with = 0;
  for (const MetaCopy& copy : moments) {
    const ConstMetaView view = *ValidateHeader(copy.bytes());
    const MetaView meta(copy.bytes().data(), view.offsets(), view.geometry());
    ASSERT_TRUE(CommitLog::Replay(meta));
    ASSERT_TRUE(RebuildTables(copy.bytes()));
    const layout::SequenceRecord& record = meta.sequences()[index];
    const std::vector<SequenceEdit> edits = kvd::EditsOf(view.history(index), record.edit_count);
    const bool is_made = record.cell_count == 58;
    (is_made ? with : without) += 1;
    ASSERT_EQ(record.cell_count, is_made ? 58u : 70u);
    EXPECT_EQ(record.edit_count, is_made ? kEditsKept + 1 : kEditsKept);
    EXPECT_EQ(edits.back().kind, is_made ? layout::kEditRemoved : layout::kEditShifted);
    EXPECT_EQ(edits.front().range.begin.value, is_made ? 1 : 0);
  }
  EXPECT_GT(without, 1);
  EXPECT_GT(with, 1);
}

}  // namespace
}  // namespace kvd
