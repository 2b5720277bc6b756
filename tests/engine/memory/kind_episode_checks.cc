// Reads the content of the memory from its bytes and compares it with the reference.
#include "tests/engine/memory/kind_episode.h"

#include <cstring>
#include <string>

#include "base/crc32c.h"

namespace kvd::memory_model {

std::uint32_t KindEpisode::Digest() const {
  const MetaOffsets& at = meta_.offsets();
  return Crc32c(0, memory_->meta_bytes().subspan(at.sequences, at.lists - at.sequences));
}

std::uint32_t* KindEpisode::Tag(std::uint32_t group, std::uint32_t block,
                                std::uint32_t cell) const {
  return reinterpret_cast<std::uint32_t*>(memory_->BlockBytes(group, BlockId{block}) +
                                          cell * sizeof(float) * 2);
}

Sum KindEpisode::StateIn(std::uint32_t slot) const {
  if (slot == layout::kNoSlot) return kSumOfNothing;
  Sum sum = 0;
  std::memcpy(&sum, memory_->StateBytes(slot), sizeof sum);
  return sum;
}

void KindEpisode::WriteState(std::uint32_t slot, Sum sum) const {
  std::memcpy(memory_->StateBytes(slot), &sum, sizeof sum);
}

bool KindEpisode::HasCheckpoint(SequenceHandle handle, std::size_t cells) const {
  if (cells == 0 || cells == reference_.Find(handle)->cells.size()) return true;
  for (const layout::Checkpoint& c : meta_.checkpoints(Record(handle).checkpoints)) {
    if (c.cell_count == cells) return true;
  }
  return false;
}

bool KindEpisode::IsLost(const std::vector<ReferenceCell>& cells, std::int64_t next) const {
  for (std::size_t at = cells.size(); at-- > 0;) {
    if (cells[at].is_dropped) return next - cells[at].position < window_;
  }
  return false;
}

bool KindEpisode::IsLost(const ReferenceMemory& after, SequenceHandle handle) const {
  const ReferenceSequence& sequence = after.sequences.at(handle);
  return IsLost(sequence.cells, sequence.next_pos());
}

bool KindEpisode::Judge(const char* verb, Code expected, const Status& actual) {
  const Code code = actual ? Code::kOk : actual.error().code;
  verb_ = verb;
  ++tally_->codes[std::string(verb) + " " + std::string(CodeName(code))];
  ++(code == Code::kOk ? tally_->done : tally_->refused);
  const bool lacks_room =
      code == Code::kNoSpace && (expected == Code::kOk || expected == Code::kWindowLost);
  if (!lacks_room) {
    EXPECT_EQ(code, expected) << verb << (actual ? "" : actual.error().message);
  }
  return code == Code::kOk;
}

void KindEpisode::Check(bool may_change) {
  SCOPED_TRACE(verb_);
  ++tally_->operations;
  const std::uint32_t digest = Digest();
  if (!may_change) {
    ASSERT_EQ(digest, digest_) << "a refused operation changed something";
  }
  digest_ = digest;
  const Result<DerivedTables> rebuilt = RebuildTables(memory_->meta_bytes());
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  ASSERT_TRUE(*rebuilt == memory_->derived());
  ASSERT_NO_FATAL_FAILURE(ExpectPrefixIndex(*memory_));
  ASSERT_EQ(memory_->Usage().live_sequences, reference_.sequences.size());
  for (auto& [handle, sequence] : reference_.sequences) {
    ASSERT_NO_FATAL_FAILURE(ExpectCells(handle, &sequence));
    ASSERT_NO_FATAL_FAILURE(ExpectState(handle, sequence));
  }
  if (!step_is_open_ && !rewind_is_open_ && lent_ == 0) ExpectNothingLeaks();
}

void KindEpisode::ExpectNothingLeaks() const {
  const DerivedTables& tables = memory_->derived();
  for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
    for (std::uint32_t b = 0; b < meta_.geometry().block_count[group]; ++b) {
      ASSERT_NE(memory_->is_free_block(group, b), tables.blocks[group].is_used(b)) << b;
    }
  }
  for (std::uint32_t slot = 0; slot < meta_.geometry().state_slot_count; ++slot) {
    ASSERT_NE(memory_->is_free_state(slot), tables.states.is_used(slot)) << "state " << slot;
  }
  for (std::uint32_t slot = 0; slot < meta_.geometry().logits_row_count; ++slot) {
    ASSERT_NE(memory_->is_free_logits(slot), tables.logits.is_used(slot)) << "logits " << slot;
  }
}

void KindEpisode::ExpectCells(SequenceHandle handle, ReferenceSequence* sequence) {
  const Contents contents = ContentsOf(*memory_, handle);
  ASSERT_EQ(contents.tokens.size(), sequence->cells.size());
  for (std::size_t at = 0; at < sequence->cells.size(); ++at) {
    ASSERT_EQ(contents.tokens[at], sequence->cells[at].token);
    ASSERT_EQ(contents.positions[at], sequence->cells[at].position);
  }
  const layout::SequenceRecord& record = Record(handle);
  for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
    const bool is_cross = group == meta_.geometry().cross_group;
    const std::vector<std::uint32_t>& text = texts_[handle];
    const ExtentView view{meta_.entries(record.extents[group]),
                          is_cross ? record.cross_cells : record.cell_count};
    if (is_cross) {
      ASSERT_EQ(text.size(), view.cell_count);
    }
    if (group == 1 && !is_cross) DropCells(view.first_cell(), sequence);
    std::uint32_t ordinal = view.first_cell();
    for (std::size_t e = 0; e < view.entries.size(); ++e) {
      const BlockRange range = view.RangeAt(e);
      for (std::uint32_t k = 0; k < range.count; ++k, ++ordinal) {
        const std::uint32_t id = is_cross ? text[ordinal] : sequence->cells[ordinal].k_id;
        if (has_bytes(group)) {
          ASSERT_EQ(*Tag(group, range.block, range.first + k), id) << "group " << group;
        }
      }
    }
  }
}

void KindEpisode::DropCells(std::uint32_t first_cell, ReferenceSequence* sequence) const {
  for (std::size_t at = 0; at < sequence->cells.size(); ++at) {
    ReferenceCell& cell = sequence->cells[at];
    if (at >= first_cell) {
      EXPECT_FALSE(cell.is_dropped) << "cell " << at;
    } else {
      EXPECT_GE(sequence->next_pos() - cell.position, window_) << "cell " << at;
      cell.is_dropped = true;
    }
  }
}

void KindEpisode::ExpectState(SequenceHandle handle, const ReferenceSequence& sequence) {
  if (!has_state_) return;
  const layout::SequenceRecord& record = Record(handle);
  const std::span<const ReferenceCell> cells = sequence.cells;
  ASSERT_EQ(StateIn(record.state_slot), SumOf(cells));
  for (const layout::Checkpoint& checkpoint : meta_.checkpoints(record.checkpoints)) {
    ASSERT_EQ(StateIn(checkpoint.state_slot), SumOf(cells.first(checkpoint.cell_count)))
        << "checkpoint at " << checkpoint.cell_count;
  }
  float row[2];
  if (*memory_->states().ReadLogits(handle, row)) {
    Sum sum = 0;
    std::memcpy(&sum, row, sizeof sum);
    ASSERT_EQ(sum, SumOf(cells));
  }
}

void KindEpisode::ExpectHeld(const SequenceHold& hold, const std::vector<ReferenceCell>& cells,
                             const std::vector<std::uint32_t>& text) const {
  ASSERT_EQ(hold.info.cell_count, cells.size());
  for (std::uint32_t group = 0; group < hold.group_count; ++group) {
    const GroupPart& part = hold.parts[group];
    const bool is_cross = group == hold.cross_group;
    ASSERT_EQ(part.cell_count, is_cross ? text.size() : cells.size());
    for (std::uint32_t at = part.first_cell; at < part.cell_count; ++at) {
      const layout::Extent& extent = part.extents[FindExtent(part.view(), at)];
      const std::uint32_t cell = extent.first + (at - extent.start);
      ASSERT_FALSE(memory_->is_free_block(group, extent.block));
      if (has_bytes(group)) {
        ASSERT_EQ(*Tag(group, extent.block, cell), is_cross ? text[at] : cells[at].k_id);
      }
      const layout::CellRecord& record = memory_->BlockCells(group, BlockId{extent.block})[cell];
      if (!is_cross) {
        ASSERT_EQ(record.token, cells[at].token);
        ASSERT_EQ(record.stored_pos + std::int64_t{extent.delta}, cells[at].position);
      }
    }
  }
  if (!has_state_) return;
  ASSERT_EQ(StateIn(hold.state_slot), SumOf(cells));
  for (const layout::Checkpoint& checkpoint : hold.checkpoints) {
    ASSERT_EQ(StateIn(checkpoint.state_slot), SumOf(std::span(cells).first(checkpoint.cell_count)));
  }
  if (hold.logits_slot == layout::kNoSlot) return;
  Sum sum = 0;
  std::memcpy(&sum, memory_->LogitsBytes(hold.logits_slot), sizeof sum);
  ASSERT_EQ(sum, SumOf(cells));
}

}  // namespace kvd::memory_model
