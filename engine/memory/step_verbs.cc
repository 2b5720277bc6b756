// A step: Reserve finds cells and state slots and tells what each sequence sees; the caller
// computes without the lock; Commit (step_commit.cc) appends. Between them the reserved cells and
// slots are used, but nothing committed refers to them: a process killed meanwhile leaves nothing
// behind.
//
// The pool's bytes are reserved from the system and the new cells' records written after the lock
// is let go: the cells are ours alone by then.
#include <algorithm>
#include <limits>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::int64_t kLastPos = std::numeric_limits<std::int32_t>::max() - 1;
constexpr std::int64_t kStoredPosMax = std::numeric_limits<std::int32_t>::max();

void SetFailed(std::size_t* failed, std::size_t index) {
  if (failed != nullptr) *failed = index;
}

}  // namespace

// More tokens than a pool has cells: bounded before they are counted in 32 bits.
std::uint32_t UnifiedMemory::CountNewCells(const AppendRequest& request) {
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(request.tokens.size(), std::numeric_limits<std::int32_t>::max()));
}

void UnifiedMemory::BeginRead() {
  for (BlockAllocator& allocator : allocators_) allocator.BeginRead();
}

void UnifiedMemory::EndRead() {
  for (BlockAllocator& allocator : allocators_) allocator.EndRead();
}

Status UnifiedMemory::CheckAppend(const AppendRequest& request, Found* found) const {
  KVD_TRY(*found, FindMutable(request.handle));
  const layout::SequenceRecord& record = *found->record;
  if (!Mark(&sequence_marks_, found->index)) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle) + ": twice in one step");
  }
  if (request.tokens.empty()) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle) + ": no tokens");
  }
  if (meta_.geometry().cross_group != layout::kNoSlot && record.cross_cells == 0) {
    return Fail(Code::kInvalidArgument,
                HandleText(request.handle) + ": no text is encoded that it could attend to");
  }
  if (request.pos.value != record.next_pos) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle) + ": position " +
                                            std::to_string(request.pos.value) +
                                            ", the next one is " + std::to_string(record.next_pos));
  }
  const ExtentView view = ViewOf(record);
  const std::int64_t delta = view.entries.empty() ? 0 : view.entries.back().delta;
  const auto new_cells = static_cast<std::int64_t>(
      std::min<std::size_t>(request.tokens.size(), std::numeric_limits<std::int32_t>::max()));
  const std::int64_t last = record.next_pos + new_cells - 1;
  if (last > kLastPos || last - delta > kStoredPosMax ||
      record.cell_count + new_cells > kStoredPosMax) {
    return Fail(Code::kInvalidArgument,
                HandleText(request.handle) + ": position " + std::to_string(last) + ", at most " +
                    std::to_string(std::min(kLastPos, kStoredPosMax + delta)));
  }
  return {};
}

UnifiedMemory::NewCells UnifiedMemory::PlanAppend(const layout::SequenceRecord& record,
                                                  std::uint32_t group,
                                                  std::uint32_t new_cells) const {
  NewCells cells;
  const ExtentView view = ViewOf(record, group);
  if (!view.entries.empty()) {
    const Piece last = view.PieceAt(view.entries.size() - 1);
    const std::uint32_t end = std::uint32_t{last.first} + last.count;
    if (allocators_[group].fill(last.block, tables_.blocks[group]) == end) {
      cells.tail_count = std::min(new_cells, layout::kBlockCells - end);
    }
  }
  cells.fresh_count = new_cells - cells.tail_count;
  cells.fresh_blocks = (cells.fresh_count + layout::kBlockCells - 1) / layout::kBlockCells;
  return cells;
}

Status UnifiedMemory::CheckListRoom(const layout::ListRoot& root,
                                    std::uint32_t fresh_blocks) const {
  const std::uint64_t entry_count = std::uint64_t{root.entry_count} + fresh_blocks;
  if (entry_count * sizeof(layout::Extent) <=
      std::uint64_t{root.capacity_units} * layout::kListUnitBytes) {
    return {};
  }
  const std::uint32_t units = ListUnitsFor(static_cast<std::uint32_t>(entry_count));
  if (tables_.lists.largest_run() >= units) return {};
  return NoListUnits(units);
}

Status UnifiedMemory::ReserveGroup(const layout::SequenceRecord& record, std::uint32_t group,
                                   std::uint32_t new_cells, GroupPart* part) {
  const ExtentView view = ViewOf(record, group);
  BlockAllocator& allocator = allocators_[group];
  part->extents.assign(view.entries.begin(), view.entries.end());
  part->first_cell = record.first_cell[group];
  part->cell_count = view.cell_count + new_cells;
  part->first_new_extent = record.extents[group].entry_count;
  if (new_cells == 0) return {};
  const NewCells cells = PlanAppend(record, group, new_cells);
  if (cells.fresh_blocks > allocator.free_blocks()) {
    return Fail(Code::kNoSpace, NoBlocks(group, cells.fresh_blocks));
  }
  KVD_CHECK_OK(CheckListRoom(record.extents[group], cells.fresh_blocks));

  const ExtentView all = is_cross(group) ? view : ViewOf(record);
  const std::int32_t delta = all.entries.empty() ? 0 : all.entries.back().delta;
  if (cells.tail_count > 0) {
    --part->first_new_extent;
    const Piece last = view.PieceAt(view.entries.size() - 1);
    allocator.ReserveTail(last.block, std::uint32_t{last.first} + last.count + cells.tail_count);
  }
  std::uint32_t start = view.cell_count + cells.tail_count;
  for (std::uint32_t left = cells.fresh_count; left > 0;) {
    const std::uint32_t count = std::min(left, layout::kBlockCells);
    part->extents.push_back({allocator.ReserveFresh(count), start, 0, 0, delta});
    start += count;
    left -= count;
  }
  return {};
}

Status UnifiedMemory::ReservePart(const AppendRequest& request, const Found& found,
                                  StepSequence* part) {
  const layout::SequenceRecord& record = *found.record;
  part->handle = request.handle;
  part->past_cells = record.cell_count;
  part->new_cells = CountNewCells(request);
  part->first_new_pos = request.pos;
  part->key_form = request.key_form;
  part->applied = request.applied;
  part->sampler = request.sampler;
  part->edit_number = record.edit_number;
  part->state_from = record.state_slot;
  part->state_to = layout::kNoSlot;
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const std::uint32_t new_cells = is_cross(group) ? 0 : part->new_cells;
    Status status = ReserveGroup(record, group, new_cells, &part->groups[group]);
    if (!status) {
      for (std::uint32_t taken = 0; taken < group; ++taken)
        ReleaseGroup(part->groups[taken], taken);
      return status;
    }
  }
  part->tokens.assign(request.tokens.begin(), request.tokens.end());
  states_.Pin(part->state_from);
  return {};
}

Status UnifiedMemory::ReserveStates(StepPlan* plan, std::size_t* failed) {
  if (!has_state()) return {};
  const auto needed = static_cast<std::uint32_t>(plan->count);
  if (Status status = FindStates(needed, /*may_evict=*/false); !status) {
    // All that can be found would do for the ones before the one at fault.
    SetFailed(failed, std::min(states_.free_slots() + CountSpareStates(), needed - 1));
    return status;
  }
  for (std::size_t index = 0; index < plan->count; ++index)
    plan->sequences[index].state_to = states_.TakePinned();
  return {};
}

Status UnifiedMemory::Reserve(std::span<const AppendRequest> requests, StepPlan* plan,
                              std::size_t* failed) {
  Status status = TryReserve(requests, plan, failed);
  if (AwaitBriefHolds(status)) status = TryReserve(requests, plan, failed);
  return status;
}

Status UnifiedMemory::TryReserve(std::span<const AppendRequest> requests, StepPlan* plan,
                                 std::size_t* failed) {
  const MutexLock growth(growth_mutex_);
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(!step_is_running_);
    MakeRoom(NeedOf(requests));
    MakeRoomForLists();
    std::vector<Found>& found = found_;
    found.resize(requests.size());
    BeginMarks();
    for (std::size_t index = 0; index < requests.size(); ++index) {
      if (Status status = CheckAppend(requests[index], &found[index]); !status) {
        SetFailed(failed, index);
        return status;
      }
    }
    if (plan->sequences.size() < requests.size()) plan->sequences.resize(requests.size());
    open_parts_.assign(requests.size(), {});
    plan->count = 0;
    step_is_running_ = true;
    BeginRead();
    Status status = {};
    for (std::size_t index = 0; index < requests.size() && status; ++index) {
      status = ReservePart(requests[index], found[index], &plan->sequences[index]);
      if (!status) {
        SetFailed(failed, index);
        break;
      }
      open_parts_[index] = {true, content_numbers_[found[index].index]};
      ++plan->count;
    }
    if (status) status = ReserveStates(plan, failed);
    if (!status) {
      UndoReserve(plan);
      return status;
    }
  }
  if (Status status = GrowPool(*plan, failed); !status) {
    const MutexLock lock(mutex_);
    UndoReserve(plan);
    return status;
  }
  for (std::size_t index = 0; index < plan->count; ++index) {
    for (std::uint32_t group = 0; group < group_count(); ++group) {
      WriteCells(plan->sequences[index], group);
    }
  }
  return {};
}

void UnifiedMemory::UndoReserve(StepPlan* plan) {
  for (std::size_t index = 0; index < plan->count; ++index) ReleasePart(*plan, index);
  plan->count = 0;
  EndRead();
  step_is_running_ = false;
}

Status UnifiedMemory::GrowPool(const StepPlan& plan, std::size_t* failed) {
  const auto grow = [this](const StepSequence& part) -> Status {
    growth_mutex_.AssertHeld();
    for (std::uint32_t group = 0; group < group_count(); ++group) {
      const GroupPart& cells = part.groups[group];
      for (std::size_t at = cells.first_new_extent; at < cells.extents.size(); ++at) {
        KVD_CHECK_OK(EnsureBlock(group, cells.extents[at].block));
      }
    }
    if (part.state_to == layout::kNoSlot) return {};
    return EnsureState(part.state_to);
  };
  for (std::size_t index = 0; index < plan.count; ++index) {
    if (Status status = grow(plan.sequences[index]); !status) {
      SetFailed(failed, index);
      return status;
    }
  }
  return {};
}

void UnifiedMemory::WriteCells(const StepSequence& part, std::uint32_t group) {
  const GroupPart& cells = part.groups[group];
  const ExtentView view = cells.view();
  if (cells.first_new_extent == cells.extents.size()) return;
  const std::uint32_t first_new = cells.cell_count - part.new_cells;
  std::uint32_t ordinal = first_new;
  for (std::size_t at = cells.first_new_extent; at < cells.extents.size(); ++at) {
    const layout::Extent& extent = cells.extents[at];
    for (; ordinal < view.EndOf(at); ++ordinal) {
      const std::uint32_t written = ordinal - first_new;
      const std::int64_t position = std::int64_t{part.first_new_pos.value} + written;
      WriteCell(group, extent.block, extent.first + (ordinal - extent.start), part.tokens[written],
                static_cast<std::int32_t>(position - extent.delta), part.key_form);
    }
  }
}

void UnifiedMemory::WriteCell(std::uint32_t group, std::uint32_t block, std::uint32_t cell,
                              TokenId token, std::int32_t stored_pos, std::uint32_t key_form) {
  meta_.cells(group, block)[cell] = {
      token, stored_pos, CellCheck(token, stored_pos, group, block, cell, key_form), key_form};
}

}  // namespace kvd
