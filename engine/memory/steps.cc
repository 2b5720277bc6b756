// This file implements the beginning of a step. The bytes of the pool are reserved from the system,
// and the records of new cells are written, without the lock, because only this step uses these
// cells.
#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/steps.h"

namespace kvd {
namespace {

constexpr std::int64_t kStoredPosMax = std::numeric_limits<std::int32_t>::max();

}  // namespace

// Limits the count before it is converted to 32 bits; a request may have more tokens than the pool
// has cells.
std::uint32_t Steps::CountNewCells(const AppendRequest& request) {
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(request.tokens.size(), std::numeric_limits<std::int32_t>::max()));
}

Status Steps::CheckAppend(const AppendRequest& request, FoundSequence* found) const {
  KVD_TRY(*found, store_.FindUnpublished(request.handle));
  const layout::SequenceRecord& record = *found->record;
  if (!store_.Mark(&store_.sequence_marks, found->index)) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle), ": appears twice in one step");
  }
  if (request.tokens.empty()) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle), ": no tokens");
  }
  if (store_.geometry().cross_group != layout::kNoSlot && record.cross_cells == 0) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle), ": no text is encoded for it");
  }
  if (request.pos.value != record.next_pos) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle), ": position ",
                request.pos.value, ", the next position is ", record.next_pos);
  }
  const ExtentView view = store_.ViewOf(record);
  const std::int64_t delta = view.entries.empty() ? 0 : view.entries.back().delta;
  const auto new_cells = static_cast<std::int64_t>(
      std::min<std::size_t>(request.tokens.size(), std::numeric_limits<std::int32_t>::max()));
  const std::int64_t last = record.next_pos + new_cells - 1;
  if (last > kLastPos || last - delta > kStoredPosMax ||
      record.cell_count + new_cells > kStoredPosMax) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle), ": position ", last,
                ", at most ", std::min<std::int64_t>(kLastPos, kStoredPosMax + delta));
  }
  return {};
}

Steps::NewCells Steps::PlanAppend(const layout::SequenceRecord& record, std::uint32_t group,
                                  std::uint32_t new_cells) const {
  NewCells cells;
  const ExtentView view = store_.ViewOf(record, group);
  if (!view.entries.empty()) {
    const BlockRange last = view.RangeAt(view.entries.size() - 1);
    const std::uint32_t end = std::uint32_t{last.first} + last.count;
    if (store_.allocators[group].fill(last.block, store_.tables.blocks[group]) == end) {
      cells.tail_count = std::min(new_cells, layout::kBlockCells - end);
    }
  }
  cells.fresh_count = new_cells - cells.tail_count;
  cells.fresh_blocks = (cells.fresh_count + layout::kBlockCells - 1) / layout::kBlockCells;
  return cells;
}

Status Steps::CheckListRoom(const layout::ListRoot& root, std::uint32_t fresh_blocks) const {
  const std::uint64_t entry_count = std::uint64_t{root.entry_count} + fresh_blocks;
  if (entry_count * sizeof(layout::Extent) <=
      std::uint64_t{root.capacity_units} * layout::kListUnitBytes) {
    return {};
  }
  const std::uint32_t units = ListUnitsFor(static_cast<std::uint32_t>(entry_count));
  if (store_.tables.lists.largest_run() >= units) return {};
  return store_.NoListUnits(units);
}

Status Steps::ReserveGroup(const layout::SequenceRecord& record, std::uint32_t group,
                           std::uint32_t new_cells, GroupPart* part, Reservation* reservation) {
  const ExtentView view = store_.ViewOf(record, group);
  part->extents.assign(view.entries.begin(), view.entries.end());
  part->first_cell = record.first_cell[group];
  part->cell_count = view.cell_count + new_cells;
  part->first_new_extent = record.extents[group].entry_count;
  if (new_cells == 0) return {};
  const NewCells cells = PlanAppend(record, group, new_cells);
  if (cells.fresh_blocks > CountAvailable(store_, group)) {
    return Fail(Code::kNoSpace, store_.NoBlocks(group, cells.fresh_blocks));
  }
  KVD_CHECK_OK(CheckListRoom(record.extents[group], cells.fresh_blocks));

  const ExtentView all = store_.is_cross(group) ? view : store_.ViewOf(record);
  const std::int32_t delta = all.entries.empty() ? 0 : all.entries.back().delta;
  if (cells.tail_count > 0) {
    --part->first_new_extent;
    const BlockRange last = view.RangeAt(view.entries.size() - 1);
    const std::uint32_t end = std::uint32_t{last.first} + last.count + cells.tail_count;
    reservation->TakeTail(group, last.block, end);
  }
  std::uint32_t start = view.cell_count + cells.tail_count;
  for (std::uint32_t left = cells.fresh_count; left > 0;) {
    const std::uint32_t count = std::min(left, layout::kBlockCells);
    part->extents.push_back({reservation->TakeBlock(group, count), start, 0, 0, delta});
    start += count;
    left -= count;
  }
  return {};
}

PendingUse Steps::UseOf(const layout::SequenceRecord& record, std::uint32_t new_cells) const {
  const Holder holder = HolderOf(record);
  PendingUse use{.owner = holder.owner};
  if (!holder.is_held) return use;
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (!store_.is_cross(group)) {
      use.blocks[group] = PlanAppend(record, group, new_cells).fresh_blocks;
    }
  }
  // A state slot that no other held sequence refers to is replaced by the new slot, so it does not
  // count twice.
  const bool replaces = record.state_slot != layout::kNoSlot &&
                        store_.tables.states.CountHeld(record.state_slot) == 1;
  use.state_slots = store_.has_state() && !replaces ? 1 : 0;
  return use;
}

Result<AppendPromise> Steps::Promise(SequenceHandle handle, std::size_t tokens) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence found, store_.FindUnpublished(handle));
  const auto cells = static_cast<std::uint32_t>(
      std::min<std::size_t>(tokens, std::numeric_limits<std::int32_t>::max()));
  PendingUse use = UseOf(*found.record, cells);
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    // A window group frees blocks while the request runs, so the request needs only the blocks of
    // one window at a time.
    const std::uint64_t window = store_.geometry().window[group];
    if (window != 0) {
      use.blocks[group] = std::min(use.blocks[group], window / layout::kBlockCells + 1);
    }
  }
  KVD_TRY(const std::uint64_t number, AddPromise(store_, found.index, use));
  return AppendPromise(store_, found.index, number);
}

Status Steps::ReservePart(const AppendRequest& request, const FoundSequence& found,
                          StepSequence* part, Reservation* reservation) {
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
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const std::uint32_t new_cells = store_.is_cross(group) ? 0 : part->new_cells;
    KVD_CHECK_OK(ReserveGroup(record, group, new_cells, &part->groups[group], reservation));
  }
  part->tokens.assign(request.tokens.begin(), request.tokens.end());
  reservation->KeepState(part->state_from);
  return {};
}

Status Steps::ReserveStates(StepPlan* plan) {
  if (!store_.has_state()) return {};
  const auto needed = static_cast<std::uint32_t>(plan->count);
  if (Status status = FindStates(store_, needed); !status) {
    // The free slots and the slots that only checkpoints use suffice for the parts before
    // plan->failed.
    plan->failed = std::min(store_.states.free_slots() + CountSpareStates(store_), needed - 1);
    return status;
  }
  for (std::size_t index = 0; index < plan->count; ++index) {
    plan->sequences[index].state_to = open_parts_[index].reservation.TakeState();
  }
  return {};
}

Status Steps::Reserve(std::span<const AppendRequest> requests, StepPlan& plan) {
  Status status = TryReserve(requests, &plan);
  if (store_.AwaitBriefHolds(status)) status = TryReserve(requests, &plan);
  return status;
}

Need Steps::NeedOf(std::span<const AppendRequest> requests) const {
  Need need;
  for (std::size_t at = 0; at < requests.size(); ++at) {
    if (store_.has_state()) ++need.states;
    for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
      if (store_.is_cross(group)) continue;
      const NewCells cells = PlanAppend(*found_[at].record, group, CountNewCells(requests[at]));
      // Of two parts that would fill the same tail, the second needs a fresh block.
      need.blocks[group] += cells.fresh_blocks + (cells.tail_count > 0 && requests.size() > 1);
    }
    const auto promise = store_.shares.promises.find(found_[at].index);
    if (promise == store_.shares.promises.end()) continue;
    for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
      need.promised[group] += promise->second.use.blocks[group];
    }
  }
  return need;
}

// The step's own sequences may be retained; they are excluded from eviction while room is made. If
// the whole step cannot have room, room is made for as many of its first requests as can have it.
void Steps::MakeRoomFor(std::span<const AppendRequest> requests) {
  for (const FoundSequence& found : found_) store_.prefix.retained.Erase(found.index);
  while (requests.size() > 1 && !CanBeMet(store_, NeedOf(requests))) {
    requests = requests.first(requests.size() - 1);
  }
  MakeRoom(store_, NeedOf(requests));
  MakeRoomForLists(store_);
  for (const FoundSequence& found : found_) NoteRetained(store_, found.index);
}

Status Steps::CheckAppends(std::span<const AppendRequest> requests, StepPlan* plan) {
  found_.resize(requests.size());
  store_.BeginMarks();
  for (std::size_t index = 0; index < requests.size(); ++index) {
    if (Status status = CheckAppend(requests[index], &found_[index]); !status) {
      plan->failed = index;
      return status;
    }
  }
  return {};
}

Status Steps::ReserveParts(std::span<const AppendRequest> requests, StepPlan* plan) {
  if (plan->sequences.size() < requests.size()) plan->sequences.resize(requests.size());
  if (open_parts_.size() < requests.size()) open_parts_.resize(requests.size());
  plan->count = 0;
  store_.step_is_running = true;
  store_.BeginRead();
  Status status = {};
  for (std::size_t index = 0; index < requests.size() && status; ++index) {
    const FoundSequence& found = found_[index];
    OpenPart& open = open_parts_[index];
    open.index = found.index;
    open.content_number = store_.facts[found.index].content_number;
    open.promised = {};
    open.reservation.Open(store_);
    if (store_.shares.rules != nullptr || !store_.shares.promises.empty()) {
      const PendingUse use = UseOf(*found.record, CountNewCells(requests[index]));
      open.promised = TakePromised(store_, found.index, use);
      status = open.reservation.Count(use);
    }
    if (status) {
      status = ReservePart(requests[index], found, &plan->sequences[index], &open.reservation);
    }
    if (!status) plan->failed = index;
    ++plan->count;
  }
  if (status) status = ReserveStates(plan);
  if (!status) UndoReserve(plan);
  return status;
}

Status Steps::TryReserve(std::span<const AppendRequest> requests, StepPlan* plan) {
  plan->failed = StepPlan::kNone;
  const MutexLock growth(store_.growth_mutex);
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(!store_.step_is_running);
    KVD_CHECK_OK(CheckAppends(requests, plan));
    if (store_.prefix.retained.size() > 0) MakeRoomFor(requests);
    KVD_CHECK_OK(ReserveParts(requests, plan));
  }
  if (Status status = GrowPool(plan); !status) {
    const MutexLock lock(store_.mutex);
    UndoReserve(plan);
    return status;
  }
  for (std::size_t index = 0; index < plan->count; ++index) {
    for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
      WriteCells(plan->sequences[index], group);
    }
  }
  return {};
}

void Steps::UndoReserve(StepPlan* plan) {
  for (std::size_t index = 0; index < plan->count; ++index) {
    open_parts_[index].reservation.GiveBack();
    ReturnPromised(store_, open_parts_[index].index, open_parts_[index].promised);
  }
  plan->count = 0;
  store_.EndRead();
  store_.step_is_running = false;
}

Status Steps::GrowPool(StepPlan* plan) {
  const auto grow = [this](const StepSequence& part) -> Status {
    store_.growth_mutex.AssertHeld();
    for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
      const GroupPart& cells = part.groups[group];
      for (std::size_t at = cells.first_new_extent; at < cells.extents.size(); ++at) {
        KVD_CHECK_OK(store_.EnsureBlock(group, cells.extents[at].block));
      }
    }
    if (part.state_to == layout::kNoSlot) return {};
    return store_.EnsureState(part.state_to);
  };
  for (std::size_t index = 0; index < plan->count; ++index) {
    if (Status status = grow(plan->sequences[index]); !status) {
      plan->failed = index;
      return status;
    }
  }
  return {};
}

void Steps::WriteCells(const StepSequence& part, std::uint32_t group) {
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
      store_.WriteCell(group, extent.block, extent.first + (ordinal - extent.start),
                       part.tokens[written], static_cast<std::int32_t>(position - extent.delta),
                       part.key_form);
    }
  }
}

}  // namespace kvd
