// MemoryInspector: reads a memory's bytes and compares them with a ReferenceMemory.
//
// Every cell of the pool is tagged: its K row holds {k_id, stored position}, its V row {v_id,
// token}. The pool is write-protected except between OpenPool and ClosePool, so a verb that writes
// to the pool crashes at once.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "base/crc32c.h"
#include "engine/memory/memory.h"
#include "engine/memory/rebuild.h"
#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/reference_memory.h"

namespace kvd {

struct CellTag {
  std::uint32_t id = 0;
  std::int32_t number = 0;  // stored position (K), token (V)
  friend bool operator==(const CellTag&, const CellTag&) = default;
};

class MemoryInspector {
 public:
  explicit MemoryInspector(Memory* memory)
      : memory_(memory), meta_(*ValidateHeader(memory->meta_bytes())) {
    ClosePool();
  }
  ~MemoryInspector() { OpenPool(); }

  void OpenPool() const { Protect(PROT_READ | PROT_WRITE); }
  void ClosePool() const { Protect(PROT_READ); }

  CellTag ReadK(std::uint32_t block, std::uint32_t cell) const {
    return Read(Row(block, cell, true));
  }
  CellTag ReadV(std::uint32_t block, std::uint32_t cell) const {
    return Read(Row(block, cell, false));
  }
  void Write(std::uint32_t block, std::uint32_t cell, CellTag k, CellTag v) const {
    std::memcpy(Row(block, cell, true), &k, sizeof k);
    std::memcpy(Row(block, cell, false), &v, sizeof v);
  }

  // Returns a checksum of all records. Equal checksums mean equal committed states: lists are
  // covered too, because a record contains the checksums of its lists.
  std::uint32_t RecordsDigest(std::span<const std::byte> meta_bytes) const {
    const MetaOffsets& offsets = meta_.offsets();
    return Crc32c(0, meta_bytes.subspan(offsets.sequences, offsets.lists - offsets.sequences));
  }
  std::uint32_t RecordsDigest() const { return RecordsDigest(memory_->meta_bytes()); }

  // Returns the first cell of each extent of the sequence, followed by the sequence's cell count.
  std::vector<std::uint32_t> ExtentBounds(SequenceHandle handle) const {
    const layout::SequenceRecord& record = meta_.sequences()[IndexOf(handle)];
    std::vector<std::uint32_t> bounds;
    for (const layout::Extent& extent : meta_.entries(record.extents[0])) {
      bounds.push_back(extent.start);
    }
    bounds.push_back(record.cell_count);
    return bounds;
  }

  // Expects that the tables rebuilt from the bytes of `meta` equal the memory's tables, that every
  // list is in normal form, and that no block is leaked unless a step is running.
  void ExpectTables(bool step_is_running) const {
    ASSERT_EQ(meta_.header().commit_word.load(), 0u);
    const Result<DerivedTables> rebuilt = RebuildTables(memory_->meta_bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    ASSERT_TRUE(*rebuilt == memory_->derived());
    ASSERT_NO_FATAL_FAILURE(ExpectPrefixIndex(*memory_));
    const BlockTable& blocks = memory_->derived().blocks[0];
    for (std::uint32_t block = 0; block < blocks.block_count(); ++block) {
      if (memory_->is_free_block(0, block)) {
        ASSERT_FALSE(blocks.is_used(block)) << block;
      } else if (!step_is_running) {
        ASSERT_TRUE(blocks.is_used(block)) << block << " leaked";
      }
    }
  }

  // Expects that every sequence, cell, tag, SequenceInfo and snapshot equals that of the reference.
  void ExpectEqual(const ReferenceMemory& reference) {
    ASSERT_EQ(memory_->Usage().live_sequences, reference.sequences.size());
    CountHolders(reference);
    ASSERT_EQ(memory_->Usage().live_cells, live_cells_);
    for (const auto& [handle, sequence] : reference.sequences) {
      ASSERT_NO_FATAL_FAILURE(ExpectInfo(handle, sequence));
      ASSERT_NO_FATAL_FAILURE(ExpectCells(handle, sequence));
    }
    const std::vector<SnapshotInfo> snapshots = memory_->snapshots().List();
    ASSERT_EQ(snapshots.size(), reference.snapshots.size());
    for (const SnapshotInfo& info : snapshots) {
      const ReferenceSnapshot& snapshot =
          reference.snapshots.at({info.name, static_cast<std::uint64_t>(info.owner)});
      ASSERT_EQ(info.sequence, snapshot.sequence);
      ASSERT_EQ(info.owner, OwnerId{snapshot.owner});
      ASSERT_EQ(info.is_public, snapshot.is_public);
    }
  }

 private:
  void Protect(int protection) const {
    ASSERT_EQ(::mprotect(memory_->BlockBytes(0, BlockId{0}), memory_->geometry().pool.blocks[0],
                         protection),
              0);
  }
  std::byte* Row(std::uint32_t block, std::uint32_t cell, bool is_k) const {
    const LayerLayout& layer = memory_->geometry().groups[0].layers[0];
    return memory_->BlockBytes(0, static_cast<BlockId>(block)) +
           (is_k ? layer.k_offset : layer.v_offset) +
           cell * (is_k ? layer.k_row_bytes : layer.v_row_bytes);
  }
  static CellTag Read(const std::byte* row) {
    CellTag tag;
    std::memcpy(&tag, row, sizeof tag);
    return tag;
  }

  // Counts the live cells and notes, for each K identity, the sequences that hold its cell.
  void CountHolders(const ReferenceMemory& reference) {
    ++pass_;
    live_cells_ = 0;
    std::uint32_t number = 0;
    for (const auto& [handle, sequence] : reference.sequences) {
      ++number;
      for (const ReferenceCell& cell : sequence.cells) {
        if (cell.k_id >= holders_.size()) holders_.resize(cell.k_id * 2);
        Holders& holders = holders_[cell.k_id];
        if (holders.pass != pass_) {
          holders = {pass_, number, false};
          ++live_cells_;
        } else if (holders.first != number) {
          holders.has_several = true;
        }
      }
    }
  }

  void ExpectInfo(SequenceHandle handle, const ReferenceSequence& sequence) {
    const Result<SequenceInfo> info = memory_->sequences().Query(handle);
    ASSERT_TRUE(info) << info.error().message;
    ASSERT_EQ(info->owner.id, OwnerId{sequence.owner});
    ASSERT_EQ(info->owner.session, static_cast<SessionId>(sequence.session));
    ASSERT_EQ(info->owner.namespace_salt, sequence.salt);
    const bool is_edited = sequence.pristine < sequence.cells.size();
    ASSERT_EQ(info->flags, layout::kSequenceLive |
                               (sequence.is_retained ? layout::kSequenceRetained : 0u) |
                               (sequence.is_pinned ? layout::kSequencePinned : 0u) |
                               (sequence.is_published ? layout::kSequencePublished : 0u) |
                               (is_edited ? layout::kSequenceEdited : 0u));
    ASSERT_EQ(info->cell_count, sequence.cells.size());
    ASSERT_EQ(info->pristine_cells, sequence.pristine);
    ASSERT_LE(sequence.pristine, ReferenceMemory::TrulyPristine(sequence));
    ASSERT_EQ(info->edit_number, sequence.edit_number);
    ASSERT_EQ(info->next_pos.value, sequence.next_pos());
    ASSERT_EQ(info->first_pos.value, sequence.cells.empty() ? 0 : sequence.cells[0].position);
    ASSERT_NO_FATAL_FAILURE(ExpectHistory(handle, sequence));
    std::uint32_t shared = 0;
    shifts_.clear();
    for (const ReferenceCell& cell : sequence.cells) {
      shared += holders_[cell.k_id].has_several;
      if (shifts_.empty() || shifts_.back() != cell.shift) shifts_.push_back(cell.shift);
    }
    const auto use = memory_->sequences().QueryUse(handle);
    ASSERT_TRUE(use);
    ASSERT_EQ(use->shared_cells, shared);
    ASSERT_EQ(use->delta_count, std::set<std::int64_t>(shifts_.begin(), shifts_.end()).size());
  }

  void ExpectHistory(SequenceHandle handle, const ReferenceSequence& sequence) {
    const Result<SequenceHistory> history = memory_->sequences().QueryHistory(handle);
    ASSERT_TRUE(history);
    ASSERT_EQ(history->parent, sequence.parent);
    ASSERT_EQ(history->parent_cells, sequence.parent_cells);
    ASSERT_EQ(history->edit_count, sequence.edits.size());
    const std::size_t kept = std::min<std::size_t>(sequence.edits.size(), layout::kEditsKept);
    ASSERT_EQ(history->edits.size(), kept);
    for (std::size_t at = 0; at < kept; ++at) {
      const SequenceEdit& edit = history->edits[at];
      const ReferenceEdit found{edit.kind, edit.range.begin.value, edit.range.end.value,
                                edit.delta};
      ASSERT_TRUE(found == sequence.edits[sequence.edits.size() - kept + at]) << "edit " << at;
    }
  }

  void ExpectCells(SequenceHandle handle, const ReferenceSequence& sequence) {
    ASSERT_TRUE(memory_->holds().ReadCells(handle, 0, ~0u, &tokens_, &positions_));
    ASSERT_EQ(tokens_.size(), sequence.cells.size());
    const layout::SequenceRecord& record = meta_.sequences()[IndexOf(handle)];
    const ExtentView view{meta_.entries(record.extents[0]), record.cell_count};
    std::size_t ordinal = 0;
    for (std::size_t index = 0; index < view.entries.size(); ++index) {
      const BlockRange range = view.RangeAt(index);
      for (std::uint32_t k = 0; k < range.count; ++k, ++ordinal) {
        const ReferenceCell& cell = sequence.cells[ordinal];
        ASSERT_EQ(tokens_[ordinal], cell.token);
        ASSERT_EQ(positions_[ordinal].value, cell.position);
        ASSERT_EQ(range.delta, cell.shift);
        const CellTag k_tag{cell.k_id, static_cast<std::int32_t>(cell.position - cell.shift)};
        ASSERT_EQ(ReadK(range.block, range.first + k), k_tag) << "cell " << ordinal;
        const CellTag v_tag{cell.v_id, cell.token};
        ASSERT_EQ(ReadV(range.block, range.first + k), v_tag) << "cell " << ordinal;
      }
    }
  }

  struct Holders {
    std::uint64_t pass = 0;
    std::uint32_t first = 0;
    bool has_several = false;
  };

  Memory* memory_;
  ConstMetaView meta_;
  std::vector<Holders> holders_;
  std::uint64_t pass_ = 0;
  std::uint64_t live_cells_ = 0;
  std::vector<std::int64_t> shifts_;
  std::vector<TokenId> tokens_;
  std::vector<Pos> positions_;
};

}  // namespace kvd
