#include "tests/crash/recovered_state.h"

#include <cstring>
#include <span>

#include "engine/memory/rebuild.h"
#include "engine/memory/record_functions.h"

namespace kvd::test {
namespace {

class Describer {
 public:
  Describer(ConstMetaView meta, Memory& memory) : meta_(meta), memory_(memory) {}

  RecoveredState Describe() {
    for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
      Sequence(index, meta_.sequences()[index]);
    }
    for (const layout::SnapshotRecord& record : meta_.snapshots()) {
      if (record.name[0] == 0) continue;
      state_.text += "snapshot ";
      state_.text += std::string_view(record.name, ::strnlen(record.name, sizeof record.name));
      Numbers({record.sequence, record.owner, record.is_public});
    }
    for (const layout::SessionRecord& record : meta_.sessions()) {
      if (record.session == 0) continue;
      state_.text += "session";
      Numbers({record.session, record.owner});
      for (const std::byte byte : record.note) Numbers({std::to_integer<std::uint64_t>(byte)});
      for (const layout::AppliedRecord& applied : record.applied) {
        if (applied.request == 0) continue;
        state_.text += " applied";
        Numbers({applied.request, applied.sequence, applied.cells, applied.replayed, applied.verb,
                 applied.created, applied.state});
      }
    }
    return std::move(state_);
  }

 private:
  void Numbers(std::initializer_list<std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers) {
      state_.text += ' ';
      state_.text += std::to_string(number);
    }
    state_.text += '\n';
  }
  void Expect(bool holds, const char* what) {
    if (!holds && state_.problem.empty()) state_.problem = what;
  }

  void Sequence(std::uint32_t index, const layout::SequenceRecord& record) {
    state_.text += "sequence";
    Numbers({index, record.generation, record.flags});
    if ((record.flags & layout::kSequenceLive) == 0) return;
    Numbers({record.owner, record.owner_session, record.namespace_salt, record.cell_count,
             record.pristine_cells, static_cast<std::uint32_t>(record.next_pos), record.cross_cells,
             record.created_by, record.request, record.request_session, record.request_first_cell,
             record.sampler.draw_count, record.sampler.cell_count, record.sampler.flags,
             record.parent, record.parent_cells, record.edit_count});
    for (const SequenceEdit& edit : EditsOf(meta_.history(index), record.edit_count)) {
      state_.text += "edit";
      Numbers({edit.unix_ms, static_cast<std::uint32_t>(edit.range.begin.value),
               static_cast<std::uint32_t>(edit.range.end.value),
               static_cast<std::uint32_t>(edit.delta), edit.kind, edit.request_kind});
    }
    sums_.assign(1, kSumOfNothing);
    for (std::uint32_t group = 0; group < meta_.geometry().group_count; ++group) {
      Group(record, group);
    }
    if (record.state_slot != layout::kNoSlot) {
      Expect(StateIn(record.state_slot) == sums_[record.cell_count],
             "the state of a sequence is not that after its cells");
    }
    for (const layout::Checkpoint& checkpoint : meta_.checkpoints(record.checkpoints)) {
      Numbers({checkpoint.cell_count});
      Expect(StateIn(checkpoint.state_slot) == sums_[checkpoint.cell_count],
             "the state of a checkpoint is not that after its cells");
    }
    if (record.logits_slot == layout::kNoSlot) return;
    state_.text += "logits\n";
    std::uint64_t row;
    std::memcpy(&row, memory_.LogitsBytes(record.logits_slot), sizeof row);
    Expect(row == sums_[record.cell_count],
           "the logits of a sequence are not those after its cells");
  }

  void Group(const layout::SequenceRecord& record, std::uint32_t group) {
    const ExtentView view{meta_.entries(record.extents[group]),
                          CellCountOf(record, meta_.geometry(), group)};
    state_.text += "group " + std::to_string(group) + " from " +
                   std::to_string(record.first_cell[group]) + ":";
    for (std::size_t at = 0; at < view.entries.size(); ++at) {
      const BlockRange range = view.RangeAt(at);
      for (std::uint32_t cell = range.first; cell < std::uint32_t{range.first} + range.count;
           ++cell) {
        const layout::CellRecord& found = meta_.cells(group, range.block)[cell];
        state_.text += ' ';
        state_.text += std::to_string(found.token);
        state_.text += '@';
        state_.text += std::to_string(std::int64_t{found.stored_pos} + range.delta);
        if (found.key_form != 0) state_.text += '\'';
        if (group == 0) sums_.push_back(AddToSum(sums_.back(), found.token));
        if (memory_.geometry().groups[group].layers.empty()) continue;
        Expect(*CellBytes(memory_, group, range.block, cell, true) ==
                   CellTag(found.token, found.stored_pos),
               "a cell was committed before its key was written");
        Expect(*CellBytes(memory_, group, range.block, cell, false) == CellTag(found.token, 0),
               "a cell was committed before its value was written");
      }
    }
    state_.text += '\n';
  }

  std::uint64_t StateIn(std::uint32_t slot) {
    std::uint64_t sum;
    std::memcpy(&sum, memory_.StateBytes(slot), sizeof sum);
    return sum;
  }

  ConstMetaView meta_;
  Memory& memory_;
  RecoveredState state_;
  std::vector<std::uint64_t> sums_;  // sums_[n] is the sum over the first n tokens of the sequence
};

}  // namespace

std::uint64_t* CellBytes(Memory& memory, std::uint32_t group, std::uint32_t block,
                         std::uint32_t cell, bool is_key) {
  const LayerLayout& layer = memory.geometry().groups[group].layers[0];
  std::byte* const bytes = memory.BlockBytes(group, BlockId{block}) +
                           (is_key ? layer.k_offset : layer.v_offset) +
                           std::size_t{cell} * (is_key ? layer.k_row_bytes : layer.v_row_bytes);
  return reinterpret_cast<std::uint64_t*>(bytes);
}

RecoveredState RecoverState(MetaView copy, Memory& memory) {
  if (const auto header = ValidateHeader(copy.bytes()); !header) {
    return {.text = {}, .problem = header.error().message};
  }
  if (const auto replayed = CommitLog::Replay(copy); !replayed) {
    return {.text = {}, .problem = replayed.error().message};
  }
  const ConstMetaView meta(copy.bytes().data(), copy.offsets(), copy.geometry());
  const Result<Recovery> recovery = RecoverTables(meta);
  if (!recovery) return {.text = {}, .problem = recovery.error().message};
  if (!recovery->dropped.empty()) {
    return {.text = {}, .problem = recovery->dropped.front().error.message};
  }
  return Describer(meta, memory).Describe();
}

}  // namespace kvd::test
