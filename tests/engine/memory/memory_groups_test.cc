// Tests window groups and cross-attention groups: when cells are dropped, which edits are refused
// because they would need dropped cells, and that edits change every group like group 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/rewrite_all.h"
#include "tests/support/into.h"

namespace kvd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kWindow = 40;

class GroupsTest : public testing::Test {
 protected:
  void TearDown() override { ExpectConsistent(); }
  // Makes a memory whose group 1 has a window of kWindow positions.
  void UseWindow(std::uint64_t window_cells = 512) {
    MemoryOptions options = SmallOptions(1024);
    options.groups.push_back(
        {.cells = window_cells, .layers = {{1, 2, 2}, {1, 2, 2}}, .window = kWindow});
    memory_ = MakeMemory(options);
  }
  // Makes a memory whose group 1 holds encoded texts.
  void UseCross() {
    MemoryOptions options = SmallOptions(512);
    options.groups.push_back({.cells = 256, .layers = {{1, 2, 2}}, .is_cross = true});
    memory_ = MakeMemory(options);
  }
  void ExpectConsistent() {
    const MetaCopy copy(memory_->meta_bytes());
    const Result<DerivedTables> rebuilt = RebuildTables(copy.bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    EXPECT_TRUE(*rebuilt == memory_->derived());
  }
  SequenceHandle Make(std::size_t count) {
    const SequenceHandle handle = *memory_->sequences().Create(kOwner);
    if (count > 0) {
      EXPECT_TRUE(AppendTokens(*memory_, handle, 100, count));
    }
    return handle;
  }
  SequenceHandle ForkOf(SequenceHandle source) {
    SequenceHandle fork = SequenceHandle::kNone;
    EXPECT_TRUE(memory_->sequences().Fork(source, kOwner, {&fork, 1}, std::nullopt));
    return fork;
  }
  Status Encode(SequenceHandle handle, std::size_t count) {
    return EncodeText(*memory_, handle, count);
  }
  // Returns the plan of a step that would append one token.
  StepSequence Seen(SequenceHandle handle) {
    StepPlan plan;
    const TokenId token = 1;
    const AppendRequest request{handle, memory_->sequences().Query(handle)->next_pos, {&token, 1}};
    const Status status = memory_->steps().Reserve({&request, 1}, plan);
    EXPECT_TRUE(status) << status.error().message;
    StepSequence part = plan.sequences[0];
    memory_->steps().Abandon(plan, 0);
    memory_->steps().EndStep(plan);
    return part;
  }
  std::uint32_t FirstCell(SequenceHandle handle) { return Seen(handle).groups[1].first_cell; }
  std::uint32_t UsedBlocks() {
    const GroupUsage usage = memory_->Usage().groups[1];
    return usage.total_blocks - usage.free_blocks;
  }
  template <class T>
  static Code CodeOf(const Result<T>& result) {
    return result ? Code::kOk : result.error().code;
  }

  std::unique_ptr<Memory> memory_;
};

TEST_F(GroupsTest, CommitDropsBlocksThatNoLaterTokenCanReach) {
  UseWindow();
  const SequenceHandle a = Make(32);
  EXPECT_EQ(FirstCell(a), 0u);
  // the next position is 71; its window begins at 32
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 39));
  EXPECT_EQ(FirstCell(a), 32u);
  EXPECT_EQ(UsedBlocks(), 2u);
  // the next position is 271; its window begins at 232
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 200));
  EXPECT_EQ(FirstCell(a), 224u);
  EXPECT_EQ(UsedBlocks(), 2u);
  EXPECT_EQ(memory_->Usage().free_blocks, 32u - 9u) << "group 0 drops no cells";
  const StepSequence seen = Seen(a);
  EXPECT_EQ(seen.groups[1].extents.front().start, 224u);
  EXPECT_EQ(seen.groups[1].cell_count, 272u);
  EXPECT_EQ(seen.groups[0].extents.size(), 9u);
  EXPECT_NE(memory_->BlockBytes(0, BlockId{0}), memory_->BlockBytes(1, BlockId{0}));
}

TEST_F(GroupsTest, ForksAndSnapshotsKeepTheCellsOfTheirWindows) {
  UseWindow();
  const SequenceHandle a = Make(64);
  const SequenceHandle fork = ForkOf(a);
  ASSERT_TRUE(memory_->snapshots().Publish(a, kOwner, "name", false, false));
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 100));
  EXPECT_EQ(FirstCell(a), 96u);
  EXPECT_EQ(FirstCell(fork), 0u);
  EXPECT_EQ(UsedBlocks(), 2u + 3u);
  ASSERT_TRUE(memory_->sequences().Drop(fork));
  ASSERT_TRUE(memory_->snapshots().Unpublish("name", kOwner.id));
  EXPECT_EQ(UsedBlocks(), 3u);
}

TEST_F(GroupsTest, AnEditThatReachesBackToDroppedCellsIsRefusedAndChangesNothing) {
  UseWindow();
  // the window of position 200 begins at 161; block 5 begins at 160
  const SequenceHandle a = Make(200);
  ASSERT_EQ(FirstCell(a), 160u);
  const Contents before = ContentsOf(*memory_, a);
  EXPECT_EQ(CodeOf(memory_->sequences().RemoveRange(a, {Pos{198}, kPosEnd})), Code::kWindowLost);
  EXPECT_EQ(CodeOf(memory_->sequences().RemoveRange(a, {Pos{100}, kPosEnd})), Code::kWindowLost);
  EXPECT_THAT(memory_->sequences().RemoveRange(a, {Pos{198}, kPosEnd}).error().message,
              HasSubstr("reaches back to 159, but cells up to position 159 are dropped"));
  // After the shift, the window of the next position would contain dropped cells.
  const SequenceHandle holed = ForkOf(a);
  EXPECT_EQ(*memory_->sequences().RemoveRange(holed, {Pos{190}, Pos{199}}), 9u);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(holed, {Pos{199}, kPosEnd}, -9)),
            Code::kWindowLost);
  SequenceHandle fork{};
  EXPECT_EQ(CodeOf(memory_->sequences().Fork(a, kOwner, {&fork, 1}, 150)), Code::kWindowLost);
  const SequenceHandle empty = Make(0);
  EXPECT_EQ(CodeOf(memory_->sequences().CopyRange(a, empty, {Pos{0}, Pos{150}})),
            Code::kWindowLost);
  EXPECT_EQ(ContentsOf(*memory_, a), before);
  ExpectConsistent();

  EXPECT_EQ(CodeOf(memory_->sequences().RemoveRange(a, {Pos{199}, kPosEnd})), Code::kOk);
  EXPECT_EQ(CodeOf(memory_->sequences().RemoveRange(a, {Pos{4}, Pos{20}})), Code::kOk);
  EXPECT_EQ(FirstCell(a), 144u);
  EXPECT_EQ(CodeOf(memory_->sequences().AddPositions(a, {Pos{20}, kPosEnd}, -16)), Code::kOk);
  ExpectConsistent();
  EXPECT_EQ(*memory_->sequences().CopyRange(a, empty, {}), 183u);
  EXPECT_EQ(FirstCell(empty), 144u);
  EXPECT_EQ(CodeOf(memory_->sequences().Clear(a)), Code::kOk);
  EXPECT_EQ(FirstCell(a), 0u);
}

TEST_F(GroupsTest, ACopyDropsTheCellsThatItsSourceHasDropped) {
  UseWindow();
  const SequenceHandle source = Make(200);
  const SequenceHandle a = Make(10);
  ASSERT_TRUE(memory_->sequences().RemoveRange(source, {Pos{0}, Pos{20}}));
  EXPECT_EQ(*memory_->sequences().CopyRange(source, a, {Pos{20}, kPosEnd}), 180u);
  EXPECT_EQ(FirstCell(a), 150u);
  ExpectConsistent();
  // A copied range that contains only dropped cells is refused.
  const SequenceHandle b = Make(0);
  ASSERT_TRUE(memory_->sequences().CopyRange(source, b, {Pos{150}, Pos{155}}).error().code ==
              Code::kWindowLost);
}

TEST_F(GroupsTest, ShiftsDivisionsAndSettlingChangeEveryGroup) {
  class Rotator : public CellRotator {
   public:
    Status RotateCell(std::uint32_t group, BlockId, std::uint32_t, Pos, BlockId, std::uint32_t,
                      Pos) override {
      ++cells[group];
      return {};
    }
    std::array<int, 2> cells = {};
  };
  UseWindow();
  const SequenceHandle a = Make(200);
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {Pos{100}, kPosEnd}, 50));
  EXPECT_EQ(Seen(a).groups[1].extents.back().delta, 50);
  ExpectConsistent();
  Rotator rotator;
  EXPECT_EQ(*SettleCells(*memory_, a, SettleScope::kAll, rotator), 200u);
  EXPECT_EQ(rotator.cells, (std::array<int, 2>{200, 40}));
  EXPECT_EQ(Seen(a).groups[1].first_cell, 160u);
  ExpectConsistent();
  // With halved positions, the window of the next position would contain dropped cells.
  EXPECT_EQ(CodeOf(DividePositions(*memory_, a, {}, 2, rotator)), Code::kWindowLost);
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 30));
  ExpectConsistent();
}

TEST_F(GroupsTest, AStepThatLacksWindowBlocksNamesTheGroup) {
  UseWindow(96);
  const SequenceHandle a = Make(64);
  const SequenceHandle b = Make(0);
  const Status status = AppendTokens(*memory_, b, 1, 64);
  EXPECT_EQ(CodeOf(status), Code::kNoSpace);
  EXPECT_THAT(status.error().message, StartsWith("cells of group 1: 2 blocks needed, 1 free"));
  EXPECT_EQ(memory_->Usage().free_blocks, 30u);
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 32));
  for (int k = 0; k < 20; ++k) ASSERT_TRUE(AppendTokens(*memory_, a, 1, 16));
  EXPECT_LE(UsedBlocks(), 3u);
}

TEST_F(GroupsTest, ATextIsEncodedOnceBeforeTheFirstCell) {
  UseCross();
  const SequenceHandle a = Make(0);
  EXPECT_THAT(AppendTokens(*memory_, a, 1, 3).error().message, HasSubstr("no text is encoded"));
  ASSERT_TRUE(Encode(a, 40));
  EXPECT_EQ(memory_->sequences().Query(a)->cross_cells, 40u);
  EXPECT_EQ(memory_->sequences().Query(a)->cell_count, 0u);
  ExpectConsistent();
  EXPECT_EQ(CodeOf(Encode(a, 3)), Code::kExists);
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 3));
  const StepSequence seen = Seen(a);
  EXPECT_EQ(seen.groups[1].cell_count, 40u);
  EXPECT_EQ(seen.groups[1].first_new_extent, seen.groups[1].extents.size());
  EXPECT_EQ(seen.groups[0].cell_count, 4u);
  EXPECT_EQ(CodeOf(Encode(a, 3)), Code::kExists);
  ASSERT_TRUE(memory_->sequences().Clear(a));
  EXPECT_EQ(memory_->sequences().Query(a)->cross_cells, 40u);
}

TEST_F(GroupsTest, ForksAndCopiesShareTheEncodedText) {
  UseCross();
  const SequenceHandle a = Make(0);
  ASSERT_TRUE(Encode(a, 40));
  ASSERT_TRUE(AppendTokens(*memory_, a, 1, 5));
  const SequenceHandle fork = ForkOf(a);
  EXPECT_EQ(UsedBlocks(), 2u);
  EXPECT_EQ(memory_->sequences().Query(fork)->cross_cells, 40u);
  const SequenceHandle copy = Make(0);
  EXPECT_EQ(*memory_->sequences().CopyRange(a, copy, {}), 5u);
  EXPECT_EQ(memory_->sequences().Query(copy)->cross_cells, 40u);
  EXPECT_EQ(UsedBlocks(), 2u);
  const SequenceHandle other = Make(0);
  ASSERT_TRUE(Encode(other, 40));
  EXPECT_EQ(CodeOf(memory_->sequences().CopyRange(a, other, {})), Code::kUnsupported);
  ASSERT_TRUE(memory_->sequences().Clear(fork));
  EXPECT_EQ(*memory_->sequences().CopyRange(a, fork, {}), 5u) << "the same text";
  ASSERT_TRUE(memory_->sequences().DropAll(std::vector{a, fork, copy, other}));
  EXPECT_EQ(UsedBlocks(), 0u);
}

TEST_F(GroupsTest, AModelWithoutAnEncoderRefusesToEncode) {
  UseWindow();
  EXPECT_EQ(CodeOf(Encode(Make(0), 3)), Code::kUnsupported);
}

TEST_F(GroupsTest, AnAbandonedEncodingLeavesNoCells) {
  UseCross();
  const SequenceHandle a = Make(0);
  const std::vector<TokenId> tokens(40, 1);
  Restore restore;
  ASSERT_TRUE(Into(memory_->restores().Begin({.handle = a, .cross_tokens = tokens}), &restore));
  EXPECT_EQ(restore.parts[1].extents.size(), 2u);
  restore.reservation.End();
  EXPECT_EQ(UsedBlocks(), 0u);
  EXPECT_EQ(memory_->sequences().Query(a)->cross_cells, 0u);
  ASSERT_TRUE(Encode(a, 3));
}

// Damages the fields of group 1 in the record of sequence 0. RebuildTables must name the field.
class GroupsDamageTest : public GroupsTest {
 protected:
  template <class Damage>
  void Expect(const char* field, Damage damage) {
    const ConstMetaView view = *ValidateHeader(memory_->meta_bytes());
    const MetaCopy copy(memory_->meta_bytes());
    const MetaView meta(copy.bytes().data(), view.offsets(), view.geometry());
    damage(meta, meta.sequences()[0]);
    for (layout::ListRoot& root : meta.sequences()[0].extents) {
      if (root.entry_count != 0) root.crc = Crc32c(0, std::as_bytes(meta.entries(root)));
    }
    const Result<DerivedTables> tables = RebuildTables(copy.bytes());
    ASSERT_FALSE(tables) << field;
    EXPECT_EQ(tables.error().code, Code::kCorrupt);
    EXPECT_THAT(tables.error().message, HasSubstr(field));
  }
};

TEST_F(GroupsDamageTest, DamageOfAWindowGroupIsNamed) {
  UseWindow();
  (void)Make(200);
  using Record = layout::SequenceRecord;
  Expect("first_cell[1]", [](MetaView, Record& record) { record.first_cell[1] = 201; });
  Expect("group 1 extent 0 start", [](MetaView, Record& record) { record.first_cell[1] = 159; });
  Expect("group 1 cell_count", [](MetaView, Record& record) { record.extents[1] = kEmptyList; });
  Expect("drops cells within the window", [](MetaView meta, Record& record) {
    layout::Extent* const entries = meta.list(record.extents[1].first_unit);
    entries[0] = entries[1];
    record.extents[1].entry_count = 1;
    record.first_cell[1] = entries[0].start;
  });
  Expect("differs from the cell of group 0", [](MetaView meta, Record& record) {
    meta.list(record.extents[1].first_unit)[0].delta = 1;
  });
  Expect("group 1 extent 0 block", [](MetaView meta, Record& record) {
    meta.list(record.extents[1].first_unit)[0].block = 16;
  });
  Expect("cross_cells", [](MetaView, Record& record) { record.cross_cells = 1; });
}

TEST_F(GroupsDamageTest, DamageOfAnEncodedTextIsNamed) {
  UseCross();
  ASSERT_TRUE(Encode(Make(0), 40));
  using Record = layout::SequenceRecord;
  Expect("cross_cells", [](MetaView, Record& record) { record.cross_cells = 1u << 31; });
  Expect("group 1 extent 1 end", [](MetaView, Record& record) { record.cross_cells = 100; });
  Expect("group 1 cell 0 position", [](MetaView meta, Record& record) {
    meta.list(record.extents[1].first_unit)[0].delta = 1;
  });
  Expect("first_cell[1]", [](MetaView, Record& record) { record.first_cell[1] = 1; });
}

}  // namespace
}  // namespace kvd
