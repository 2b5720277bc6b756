#include "engine/memory/rebuild.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/crc32c.h"
#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using layout::SequenceRecord;
using testing::HasSubstr;

// A `meta` with four sequences: 0 has 70 pristine cells in 3 extents, 1 is an edited fork of 0, 2
// is a snapshot of 0 named "snap", and 3 is dropped.
class RebuildTest : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = MakeMemory(SmallOptions(256));
    const SequenceOwner owner{OwnerId{1000}, SessionId{1}, 0};
    const SequenceHandle a = *memory_->sequences().Create(owner);
    ASSERT_TRUE(AppendTokens(*memory_, a, 100, 70));
    SequenceHandle b{};
    ASSERT_TRUE(memory_->sequences().Fork(a, owner, {&b, 1}, std::nullopt));
    ASSERT_TRUE(memory_->sequences().RemoveRange(b, {Pos{10}, Pos{20}}));
    ASSERT_TRUE(memory_->snapshots().Publish(a, owner, "snap", true, false));
    const SequenceHandle dropped = *memory_->sequences().Create(owner);
    ASSERT_TRUE(memory_->sequences().Drop(dropped));
    view_ = *ValidateHeader(memory_->meta_bytes());
  }

  // A copy of `meta` that a test damages, with access to its records, lists and cells.
  struct Copy : MetaCopy {
    Copy(std::span<const std::byte> bytes, const ConstMetaView& view)
        : MetaCopy(bytes), meta(this->bytes().data(), view.offsets(), view.geometry()) {}
    MetaView meta;

    layout::MetaHeader& header() const { return meta.header(); }
    SequenceRecord& record(std::uint32_t index) const { return meta.sequences()[index]; }
    layout::SnapshotRecord& snapshot() const { return meta.snapshots()[0]; }
    layout::Extent& extent(std::uint32_t sequence, std::size_t index) const {
      return meta.list(record(sequence).extents[0].first_unit)[index];
    }
    layout::CellRecord& cell(std::uint32_t sequence, std::uint32_t ordinal) const {
      return const_cast<layout::CellRecord&>(
          CellList{{meta.entries(record(sequence).extents[0]), record(sequence).cell_count},
                   meta.cells(0, 0)}
              .RecordAt(ordinal));
    }
    // The Seal functions correct a checksum after the test has damaged bytes, as an attacker could.
    void SealHeader() const {
      header().header_crc = Crc32c(0, bytes().first(offsetof(layout::MetaHeader, header_crc)));
    }
    void SealList(std::uint32_t sequence) const {
      layout::ListRoot& root = record(sequence).extents[0];
      root.crc = Crc32c(0, std::as_bytes(meta.entries(root)));
    }
    void SealCell(std::uint32_t sequence, std::uint32_t ordinal) const {
      const ExtentView view{meta.entries(record(sequence).extents[0]), record(sequence).cell_count};
      const layout::Extent& found = view.entries[FindExtent(view, ordinal)];
      layout::CellRecord& damaged = cell(sequence, ordinal);
      damaged.check = CellCheck(damaged.token, damaged.stored_pos, 0, found.block,
                                found.first + (ordinal - found.start), damaged.key_form);
    }
  };
  Copy MakeCopy() const { return Copy(memory_->meta_bytes(), view_); }

  template <class Damage>
  void Expect(const char* field, Damage damage, Code code = Code::kCorrupt) const {
    const Copy copy = MakeCopy();
    damage(copy);
    const Result<DerivedTables> tables = RebuildTables(copy.bytes());
    ASSERT_FALSE(tables) << field;
    EXPECT_EQ(tables.error().code, code) << tables.error().message;
    EXPECT_THAT(tables.error().message, HasSubstr(field));
  }
  template <class Damage>
  void ExpectHeader(const char* field, Damage damage, Code code = Code::kCorrupt) const {
    Expect(
        field,
        [&](const Copy& copy) {
          damage(copy.header());
          copy.SealHeader();
        },
        code);
  }
  template <class Damage>
  void ExpectRecord(const char* field, Damage damage) const {
    Expect(field, [&](const Copy& copy) { damage(copy.record(1)); });
  }

  std::unique_ptr<Memory> memory_;
  ConstMetaView view_;
};

TEST_F(RebuildTest, DamagedHistoriesAreNamed) {
  ASSERT_EQ(view_.sequences()[1].edit_count, 1u);
  const auto expect_edit = [&](const char* field, auto damage) {
    Expect(field, [&](const Copy& copy) { damage(copy.meta.history(1)[0]); });
  };
  using layout::EditRecord;
  expect_edit("sequence 1 edit 0 kind: 0", [](EditRecord& edit) { edit.kind = 0; });
  expect_edit("sequence 1 edit 0 kind: 5", [](EditRecord& edit) { edit.kind = 5; });
  expect_edit("sequence 1 edit 0 range: -1", [](EditRecord& edit) { edit.first = -1; });
  expect_edit("sequence 1 edit 0 range: 10 to 10", [](EditRecord& edit) { edit.end = edit.first; });
  ExpectRecord("sequence 1 edit 1 kind", [](SequenceRecord& record) { ++record.edit_count; });
  ExpectRecord("parent: 4294967308", [](SequenceRecord& record) {
    record.parent = static_cast<std::uint64_t>(MakeHandle(12, 1));
  });
  ExpectRecord("parent: 1", [](SequenceRecord& record) { record.parent = 1; });
  ExpectRecord("parent_cells", [](SequenceRecord& record) { record.parent = 0; });
  ExpectRecord("parent_cells", [](SequenceRecord& record) { record.parent_cells = 1u << 31; });
  ExpectRecord("given_from", [](SequenceRecord& record) { record.given_from = 1; });
  // Edit records beyond edit_count are not read.
  const Copy copy = MakeCopy();
  copy.meta.history(1)[1].kind = 77;
  copy.meta.history(3)[0].kind = 77;
  EXPECT_TRUE(RebuildTables(copy.bytes()));
}

// Owner numbers above kOwnerMax are invalid, because the tables use the two largest numbers for "no
// owner" and "several owners".
TEST_F(RebuildTest, OwnersAndSessionsWithImpossibleIdsAreNamed) {
  for (const std::uint64_t owner : {~0ull, ~0ull - 1, 1ull << 63}) {
    ExpectRecord("owner", [&](SequenceRecord& record) { record.owner = owner; });
    Expect("snapshot 0 owner", [&](const Copy& copy) { copy.meta.snapshots()[0].owner = owner; });
  }
  ExpectRecord("sequence 1 session", [](SequenceRecord& record) { record.owner_session = ~0ull; });
  ExpectRecord("sequence 1 session",
               [](SequenceRecord& record) { record.request_session = ~0ull; });
}

TEST_F(RebuildTest, RebuiltTablesOfUndamagedBytesEqualTheLiveOnes) {
  const Copy copy = MakeCopy();
  const Result<DerivedTables> tables = RebuildTables(copy.bytes());
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_TRUE(*tables == memory_->derived());
  EXPECT_EQ(tables->blocks[0].live_cells(), 70u);
  EXPECT_EQ(tables->snapshots_by_name.find(SnapshotKey{"snap", OwnerId{1000}})->second, 0u);
  EXPECT_EQ(tables->public_snapshots.at("snap"), 0u);
}

TEST_F(RebuildTest, DamagedHeadersAreNamed) {
  using layout::MetaHeader;
  Expect("magic", [](const Copy& copy) { ++copy.header().magic; });
  Expect("version", [](const Copy& copy) { ++copy.header().version; }, Code::kVersionMismatch);
  Expect("header_crc", [](const Copy& copy) { ++copy.header().boot_id[3]; });
  ExpectHeader("header_bytes", [](MetaHeader& header) { ++header.header_bytes; });
  ExpectHeader(
      "layout_signature", [](MetaHeader& header) { ++header.layout_signature; },
      Code::kVersionMismatch);
  Expect("numeric_form", [](const Copy& copy) { copy.header().numeric_form = 4; });
  ExpectHeader("total_bytes", [](MetaHeader& header) { ++header.total_bytes; });
  ExpectHeader("offsets", [](MetaHeader& header) { header.lists_offset += 64; });
  ExpectHeader("offsets", [](MetaHeader& header) { header.cells_offset[0] -= 4096; });
  ExpectHeader("total_bytes", [](MetaHeader& header) { header.geometry.block_count[0] *= 2; });
  ExpectHeader("block_cells", [](MetaHeader& header) { header.geometry.block_cells = 16; });
  ExpectHeader("group_count", [](MetaHeader& header) { header.geometry.group_count = 5; });
  ExpectHeader("block_count[0]", [](MetaHeader& header) { header.geometry.block_count[0] = 0; });
  ExpectHeader("block_count[0]", [](MetaHeader& header) { header.geometry.block_count[0] = ~0u; });
  ExpectHeader("block_count[2]", [](MetaHeader& header) { header.geometry.block_count[2] = 1; });
  ExpectHeader("block_stride_bytes[0]",
               [](MetaHeader& header) { header.geometry.block_stride_bytes[0] = 1; });
  ExpectHeader("block_stride_bytes[0]",
               [](MetaHeader& header) { header.geometry.block_stride_bytes[0] = 4100; });
  ExpectHeader("window[0]", [](MetaHeader& header) { header.geometry.window[0] = 1; });
  ExpectHeader("window[1]", [](MetaHeader& header) { header.geometry.window[1] = 1; });
  ExpectHeader("cross_group", [](MetaHeader& header) { header.geometry.cross_group = 0; });
  ExpectHeader("cross_group", [](MetaHeader& header) { header.geometry.cross_group = 1; });
  ExpectHeader("geometry.reserved", [](MetaHeader& header) { header.geometry.reserved[1] = 1; });
  ExpectHeader("sequence_capacity",
               [](MetaHeader& header) { header.geometry.sequence_capacity = 0; });
  ExpectHeader("snapshot_capacity",
               [](MetaHeader& header) { header.geometry.snapshot_capacity = ~0u; });
  ExpectHeader("session_capacity",
               [](MetaHeader& header) { header.geometry.session_capacity = ~0u; });
  ExpectHeader("state_slot_count",
               [](MetaHeader& header) { header.geometry.state_slot_count = ~0u; });
  ExpectHeader("list_unit_count", [](MetaHeader& header) { header.geometry.list_unit_count = 0; });
  ExpectHeader("logits_row_count",
               [](MetaHeader& header) { header.geometry.logits_row_count = ~0u; });
  ExpectHeader("state_slot_bytes",
               [](MetaHeader& header) { header.geometry.state_slot_bytes = 4096; });
}

TEST_F(RebuildTest, ShortOrMisalignedBytesAreRefused) {
  const Copy copy = MakeCopy();
  EXPECT_EQ(RebuildTables(copy.bytes().first(100)).error().code, Code::kCorrupt);
  EXPECT_EQ(RebuildTables({}).error().code, Code::kCorrupt);
  EXPECT_EQ(RebuildTables(copy.bytes().first(copy.bytes().size() - 4096)).error().code,
            Code::kCorrupt);
  EXPECT_EQ(RebuildTables(copy.bytes().subspan(8)).error().code, Code::kInvalidArgument);
}

TEST_F(RebuildTest, DamagedRecordsAreNamed) {
  ExpectRecord("sequence 1 generation", [](SequenceRecord& record) { record.generation = 0; });
  ExpectRecord("sequence 1 flags", [](SequenceRecord& record) { record.flags |= 1u << 9; });
  ExpectRecord("sequence 1 flags",
               [](SequenceRecord& record) { record.flags = layout::kSequencePinned; });
  // kSequenceEdited
  ExpectRecord("sequence 1 flags", [](SequenceRecord& record) { record.flags &= ~16u; });
  ExpectRecord("sequence 1 flags: published",
               [](SequenceRecord& record) { record.flags |= layout::kSequencePublished; });
  ExpectRecord("cell_count", [](SequenceRecord& record) {
    record.extents[0] = kEmptyList;
    record.pristine_cells = 0;
  });
  ExpectRecord("cell_count", [](SequenceRecord& record) { record.cell_count = 1u << 31; });
  ExpectRecord("extent 3 end", [](SequenceRecord& record) { record.cell_count += 27; });
  ExpectRecord("extent 3 end", [](SequenceRecord& record) { record.cell_count = 30; });
  ExpectRecord("pristine_cells", [](SequenceRecord& record) { record.pristine_cells = 1000; });
  ExpectRecord("pristine", [](SequenceRecord& record) { record.pristine_cells = 11; });
  ExpectRecord("next_pos", [](SequenceRecord& record) { ++record.next_pos; });
  ExpectRecord("state_slot", [](SequenceRecord& record) { record.state_slot = 0; });
  ExpectRecord("logits_slot", [](SequenceRecord& record) { record.logits_slot = 0; });
  ExpectRecord("cross_cells", [](SequenceRecord& record) { record.cross_cells = 1; });
  ExpectRecord("extents[2]", [](SequenceRecord& record) { record.extents[2].first_unit = 0; });
  ExpectRecord("checkpoints", [](SequenceRecord& record) { record.checkpoints.entry_count = 1; });
  ExpectRecord("sampler", [](SequenceRecord& record) { record.sampler.seed = 1; });
  ExpectRecord("sampler", [](SequenceRecord& record) { record.sampler.flags = 32 + 1; });
  ExpectRecord("sampler grammar_begin", [](SequenceRecord& record) {
    record.sampler.flags = layout::kSamplerKept;
    record.sampler.grammar_begin = 1;
  });
  ExpectRecord("first_cell[0]", [](SequenceRecord& record) { record.first_cell[0] = 1; });
  ExpectRecord("extents[1]", [](SequenceRecord& record) { record.first_cell[1] = 1; });
  ExpectRecord("sampler", [](SequenceRecord& record) {
    record.sampler.flags = layout::kSamplerKept;
    record.sampler.xtc_draw_count = 1;
  });
  Expect("sequence 3 generation", [](const Copy& copy) { copy.record(3).generation = 0; });
  Expect("sequence 3 flags",
         [](const Copy& copy) { copy.record(3).flags = layout::kSequenceRetained; });
}

TEST_F(RebuildTest, DamagedListsAreNamed) {
  ExpectRecord("extents[0]: an empty list",
               [](SequenceRecord& record) { record.extents[0].capacity_units = 0; });
  ExpectRecord("first_unit",
               [](SequenceRecord& record) { record.extents[0].first_unit = layout::kNoSlot; });
  ExpectRecord("first_unit",
               [](SequenceRecord& record) { record.extents[0].capacity_units = ~0u; });
  ExpectRecord("entry_count", [](SequenceRecord& record) { record.extents[0].entry_count = 0; });
  ExpectRecord("entry_count", [](SequenceRecord& record) { record.extents[0].entry_count = 17; });
  ExpectRecord("crc", [](SequenceRecord& record) { ++record.extents[0].crc; });
  Expect("crc", [](const Copy& copy) { ++copy.extent(1, 2).delta; });
  Expect("sequence 1 extents[0]: overlaps", [](const Copy& copy) {
    copy.record(1).extents[0] = copy.record(0).extents[0];
    copy.record(1).cell_count = copy.record(1).pristine_cells = copy.record(0).cell_count;
    copy.record(1).flags = copy.record(0).flags;
    copy.record(1).next_pos = copy.record(0).next_pos;
  });
}

TEST_F(RebuildTest, DamagedExtentsAreNamed) {
  const auto expect = [&](const char* field, auto damage) {
    Expect(field, [&](const Copy& copy) {
      damage(copy);
      copy.SealList(1);
    });
  };
  expect("extent 0 start", [](const Copy& copy) { copy.extent(1, 0).start = 1; });
  expect("extent 1 block", [](const Copy& copy) { copy.extent(1, 1).block = 8; });
  expect("extent 1 reserved", [](const Copy& copy) { copy.extent(1, 1).reserved = 1; });
  expect("extent 1 first", [](const Copy& copy) { copy.extent(1, 1).first = 32; });
  expect("extent 1 end", [](const Copy& copy) { copy.extent(1, 1).first = 21; });
  expect("extent 1 end",
         [](const Copy& copy) { copy.extent(1, 2).start = copy.extent(1, 1).start; });
  expect("extent 0 end", [](const Copy& copy) { copy.extent(1, 1).start = 33; });
  expect("extent 1 first: continues the extent before it",
         [](const Copy& copy) { copy.extent(1, 1).first = 10; });
  expect("position", [](const Copy& copy) { copy.extent(1, 2).delta = -40; });
  expect("position", [](const Copy& copy) { copy.extent(1, 3).delta = INT32_MAX; });
  expect("cell 0 position", [](const Copy& copy) { copy.extent(1, 0).delta = -1; });
}

TEST_F(RebuildTest, DamagedCellsAreNamed) {
  Expect("cell 5 check", [](const Copy& copy) { ++copy.cell(0, 5).token; });
  Expect("cell 5 check", [](const Copy& copy) { ++copy.cell(0, 5).stored_pos; });
  Expect("cell 5 check", [](const Copy& copy) { copy.cell(0, 5).key_form = 1; });
  Expect("cell 5 key_form", [](const Copy& copy) {
    copy.cell(0, 5).key_form = layout::kKeyFormsMax;
    copy.SealCell(0, 5);
  });
  // A cell record copied to another place is damaged, because its check covers its place.
  Expect("cell 5 check", [](const Copy& copy) { copy.cell(0, 5) = copy.cell(0, 6); });
  Expect("cell 0 stored_pos: -1", [](const Copy& copy) {
    copy.cell(0, 0).stored_pos = -1;
    copy.SealCell(0, 0);
  });
  Expect("cell 6 position", [](const Copy& copy) {
    copy.cell(0, 6).stored_pos = 5;
    copy.SealCell(0, 6);
  });
}

TEST_F(RebuildTest, DamagedSnapshotsAreNamed) {
  const auto expect = [&](const char* field, auto damage) {
    Expect(field, [&](const Copy& copy) { damage(copy.snapshot()); });
  };
  using layout::SnapshotRecord;
  expect("snapshot 0 name", [](SnapshotRecord& record) { record.name[10] = 'x'; });
  expect("snapshot 0 name", [](SnapshotRecord& record) { record.name[0] = 0; });
  expect("snapshot 0 sequence",
         [](SnapshotRecord& record) { std::memset(record.name, 0, sizeof record.name); });
  expect("snapshot 0 is_public", [](SnapshotRecord& record) { record.is_public = 2; });
  expect("snapshot 0 reserved", [](SnapshotRecord& record) { record.reserved[0] = 1; });
  expect("snapshot 0 sequence", [](SnapshotRecord& record) { record.sequence = ~0ull; });
  expect("snapshot 0 sequence", [](SnapshotRecord& record) { record.sequence += 1ull << 32; });
  expect("snapshot 0 sequence", [](SnapshotRecord& record) { record.sequence -= 1; });
  expect("sequence 2 flags", [](SnapshotRecord& record) { record = {}; });
  Expect("snapshot 1 sequence", [](const Copy& copy) {
    copy.meta.snapshots()[1] = copy.snapshot();
    copy.meta.snapshots()[1].name[0] = 'x';
  });
}

TEST_F(RebuildTest, TwoSnapshotsOfOneNameAreRefused) {
  ASSERT_TRUE(memory_->snapshots().Publish(MakeHandle(0, 1), {}, "other", false, false));
  Expect("snapshot 1 name", [](const Copy& copy) {
    std::memcpy(copy.meta.snapshots()[1].name, copy.snapshot().name, sizeof copy.snapshot().name);
    copy.meta.snapshots()[1].owner = copy.snapshot().owner;
  });
  // Public snapshots of two owners have different names.
  Expect("snapshot 1 name", [](const Copy& copy) {
    std::memcpy(copy.meta.snapshots()[1].name, copy.snapshot().name, sizeof copy.snapshot().name);
    copy.meta.snapshots()[1].is_public = 1;
  });
}

TEST(RebuildSessionsTest, TwoRecordsOfOneSessionAreRefused) {
  MemoryOptions options = SmallOptions(256);
  options.session_capacity = 2;
  const auto memory = MakeMemory(options);
  const ConstMetaView view = *ValidateHeader(memory->meta_bytes());
  const MetaCopy copy(memory->meta_bytes());
  const MetaView meta(copy.bytes().data(), view.offsets(), view.geometry());
  meta.sessions()[0].session = meta.sessions()[1].session = 7;
  const Result<DerivedTables> tables = RebuildTables(copy.bytes());
  ASSERT_FALSE(tables);
  EXPECT_THAT(tables.error().message,
              HasSubstr("session 1 session: 7 is also the id of another session"));
}

TEST_F(RebuildTest, APublishedRecordIsAppliedToACopy) {
  std::vector<MetaCopy> published;
  memory_->commit_log_for_test().set_probe_for_test([&](CommitLog::Moment moment) {
    if (moment == CommitLog::Moment::kPublished) published.emplace_back(memory_->meta_bytes());
  });
  ASSERT_TRUE(memory_->sequences().Drop(MakeHandle(1, 1)));
  const MetaCopy untouched(published.at(0).bytes());
  const Result<DerivedTables> tables = RebuildTables(published[0].bytes());
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_TRUE(*tables == memory_->derived());
  EXPECT_EQ(
      std::memcmp(untouched.bytes().data(), published[0].bytes().data(), untouched.bytes().size()),
      0);
  ++reinterpret_cast<layout::CommitHeader*>(published[0].bytes().data() + view_.offsets().commit)
        ->crc;
  EXPECT_THAT(RebuildTables(published[0].bytes()).error().message, HasSubstr("commit record"));
}

TEST_F(RebuildTest, RandomDamageCausesNoCrash) {
  std::mt19937_64 random(5);
  const MetaOffsets& offsets = view_.offsets();
  const Copy copy = MakeCopy();
  for (int trial = 0; trial < 20000; ++trial) {
    // Damages bytes that are in use: the lists, the records or the first cells.
    const std::uint64_t begin = trial % 3 == 0   ? offsets.lists
                                : trial % 3 == 1 ? offsets.sequences
                                                 : offsets.cells[0];
    const std::uint64_t span = trial % 3 == 1 ? 4 * sizeof(SequenceRecord) : 2048;
    const auto at = static_cast<std::size_t>(begin + random() % span);
    const std::byte old = copy.bytes()[at];
    copy.bytes()[at] = static_cast<std::byte>(random());
    for (std::uint32_t index = 0; index < 3; ++index) {
      // Seals a list only if its damaged root still refers to bytes inside the lists.
      const layout::ListRoot root = copy.record(index).extents[0];
      const bool is_inside = root.first_unit < view_.geometry().list_unit_count &&
                             root.entry_count <= layout::kListUnitBytes / sizeof(layout::Extent);
      if (is_inside && trial % 2 == 0) copy.SealList(index);
    }
    (void)RebuildTables(copy.bytes());
    copy.bytes()[at] = old;
    for (std::uint32_t index = 0; index < 3; ++index) copy.SealList(index);
  }
  EXPECT_TRUE(RebuildTables(copy.bytes()));
}

}  // namespace
}  // namespace kvd
