// A step: Reserve finds cells and tells what each sequence sees; the caller computes without the
// lock; Commit appends. Between them the reserved cells are used, but no list refers to them: a
// process killed meanwhile leaves nothing behind.
//
// The pool's bytes are reserved from the system and the new cells' records written after the lock
// is let go: the cells are ours alone by then.
#include <algorithm>
#include <limits>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace kvd {
namespace {

constexpr std::int64_t kLastPos = std::numeric_limits<std::int32_t>::max() - 1;
constexpr std::int64_t kStoredPosMax = std::numeric_limits<std::int32_t>::max();

// The blocks of a part that hold reserved cells, in order: those of the extents from
// first_new_extent on.
template <class Visit>
void ForEachReservedBlock(const StepSequence& part, Visit visit) {
  for (std::size_t at = part.first_new_extent; at < part.extents.size(); ++at) {
    visit(part.extents[at].block);
  }
}

void SetFailed(std::size_t* failed, std::size_t index) {
  if (failed != nullptr) *failed = index;
}

}  // namespace

// Where the new cells of one sequence go.
struct UnifiedMemory::NewCells {
  std::uint32_t tail_count = 0;   // into the free tail of the last block
  std::uint32_t fresh_count = 0;  // into fresh blocks
  std::uint32_t fresh_blocks = 0;
};

Status UnifiedMemory::CheckAppend(const AppendRequest& request, Found* found) const {
  KVD_TRY(*found, FindMutable(request.handle));
  const layout::SequenceRecord& record = *found->record;
  if (!Mark(&sequence_marks_, found->index)) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle) + ": twice in one step");
  }
  if (request.tokens.empty()) {
    return Fail(Code::kInvalidArgument, HandleText(request.handle) + ": no tokens");
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
                                                  std::uint32_t new_cells) const {
  NewCells cells;
  const ExtentView view = ViewOf(record);
  if (!view.entries.empty()) {
    const Piece last = view.PieceAt(view.entries.size() - 1);
    const std::uint32_t end = std::uint32_t{last.first} + last.count;
    if (allocator_.fill(last.block, tables_.blocks) == end) {
      cells.tail_count = std::min(new_cells, layout::kBlockCells - end);
    }
  }
  cells.fresh_count = new_cells - cells.tail_count;
  cells.fresh_blocks = (cells.fresh_count + layout::kBlockCells - 1) / layout::kBlockCells;
  return cells;
}

Status UnifiedMemory::CheckListRoom(const layout::SequenceRecord& record,
                                    const NewCells& cells) const {
  const layout::ListRoot& root = record.extents[0];
  const std::uint64_t entry_count = std::uint64_t{root.entry_count} + cells.fresh_blocks;
  if (entry_count * sizeof(layout::Extent) <=
      std::uint64_t{root.capacity_units} * layout::kListUnitBytes) {
    return {};
  }
  const std::uint32_t units = ListUnitsFor(static_cast<std::uint32_t>(entry_count));
  if (tables_.lists.largest_run() >= units) return {};
  return NoListUnits(units);
}

void UnifiedMemory::ReservePart(const AppendRequest& request, const Found& found,
                                const NewCells& cells, StepSequence* part) {
  const layout::SequenceRecord& record = *found.record;
  const ExtentView view = ViewOf(record);
  part->handle = request.handle;
  part->past_cells = record.cell_count;
  part->new_cells = static_cast<std::uint32_t>(request.tokens.size());
  part->first_new_pos = request.pos;
  part->key_form = request.key_form;
  part->edit_number = record.edit_number;
  part->tokens.assign(request.tokens.begin(), request.tokens.end());
  part->extents.assign(view.entries.begin(), view.entries.end());
  part->state_from = record.state_slot;
  part->state_to =
      has_state() ? state_allocator_.ReserveFresh(layout::kBlockCells) : layout::kNoSlot;

  const std::int32_t delta = view.entries.empty() ? 0 : view.entries.back().delta;
  part->first_new_extent = record.extents[0].entry_count - (cells.tail_count > 0 ? 1 : 0);
  if (cells.tail_count > 0) {
    const Piece last = view.PieceAt(view.entries.size() - 1);
    allocator_.ReserveTail(last.block, std::uint32_t{last.first} + last.count + cells.tail_count);
  }
  std::uint32_t start = record.cell_count + cells.tail_count;
  for (std::uint32_t left = cells.fresh_count; left > 0;) {
    const std::uint32_t count = std::min(left, layout::kBlockCells);
    part->extents.push_back({allocator_.ReserveFresh(count), start, 0, 0, delta});
    start += count;
    left -= count;
  }
}

Status UnifiedMemory::Reserve(std::span<const AppendRequest> requests, StepPlan* plan,
                              std::size_t* failed) {
  const std::scoped_lock growth(growth_mutex_);
  {
    const std::scoped_lock lock(mutex_);
    KVD_ASSERT(!allocator_.step_is_running());
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
    if (has_state()) GiveUpCheckpoints(requests.size());
    BeginStep();
    for (std::size_t index = 0; index < requests.size(); ++index) {
      const layout::SequenceRecord& record = *found[index].record;
      // More tokens than the pool has cells: bounded before it is counted in 32 bits.
      const auto new_cells = static_cast<std::uint32_t>(std::min<std::size_t>(
          requests[index].tokens.size(), std::numeric_limits<std::int32_t>::max()));
      const NewCells cells = PlanAppend(record, new_cells);
      Status status = {};
      if (cells.fresh_blocks > allocator_.free_blocks()) {
        status = Fail(Code::kNoSpace, NoBlocks(cells.fresh_blocks, allocator_.free_blocks()));
      } else {
        status = CheckListRoom(record, cells);
      }
      if (status && has_state() && state_allocator_.free_blocks() == 0) {
        status = Fail(Code::kNoSpace, NoStates(1));
      }
      if (!status) {
        SetFailed(failed, index);
        UndoReserve(plan);
        return status;
      }
      ReservePart(requests[index], found[index], cells, &plan->sequences[index]);
      open_parts_[index] = {true, content_numbers_[found[index].index]};
      ++plan->count;
    }
  }
  if (Status status = GrowPool(*plan, failed); !status) {
    const std::scoped_lock lock(mutex_);
    UndoReserve(plan);
    return status;
  }
  for (std::size_t index = 0; index < plan->count; ++index) WriteCells(plan->sequences[index]);
  return {};
}

void UnifiedMemory::UndoReserve(StepPlan* plan) {
  for (std::size_t index = 0; index < plan->count; ++index) ReleasePart(*plan, index);
  plan->count = 0;
  EndAllocations();
}

Status UnifiedMemory::GrowPool(const StepPlan& plan, std::size_t* failed) {
  for (std::size_t index = 0; index < plan.count; ++index) {
    const StepSequence& part = plan.sequences[index];
    Status status = {};
    if (part.state_to != layout::kNoSlot) status = EnsureBytes(state_allocator_, part.state_to);
    ForEachReservedBlock(part, [&](std::uint32_t block) {
      if (status) status = EnsureBytes(allocator_, block);
    });
    if (!status) {
      SetFailed(failed, index);
      return status;
    }
  }
  return {};
}

void UnifiedMemory::WriteCells(const StepSequence& part) {
  std::uint32_t ordinal = part.past_cells;
  for (std::size_t at = part.first_new_extent; at < part.extents.size(); ++at) {
    const layout::Extent& extent = part.extents[at];
    const std::uint32_t end = at + 1 < part.extents.size() ? part.extents[at + 1].start
                                                           : part.past_cells + part.new_cells;
    for (; ordinal < end; ++ordinal) {
      const std::uint32_t written = ordinal - part.past_cells;
      const std::int64_t position = std::int64_t{part.first_new_pos.value} + written;
      WriteCell(extent.block, extent.first + (ordinal - extent.start), part.tokens[written],
                static_cast<std::int32_t>(position - extent.delta), part.key_form);
    }
  }
}

void UnifiedMemory::WriteCell(std::uint32_t block, std::uint32_t cell, TokenId token,
                              std::int32_t stored_pos, std::uint32_t key_form) {
  meta_.cells(block)[cell] = {token, stored_pos,
                              CellCheck(token, stored_pos, 0, block, cell, key_form), key_form};
}

Status UnifiedMemory::Commit(StepPlan& plan, std::size_t index) {
  const std::scoped_lock lock(mutex_);
  KVD_ASSERT(index < plan.count && open_parts_[index].is_open);
  const StepSequence& part = plan.sequences[index];
  const Result<Found> found = Find(part.handle);
  if (!found || content_numbers_[found->index] != open_parts_[index].content_number) {
    ReleasePart(plan, index);
    return Fail(Code::kConflict, HandleText(part.handle) + ": changed while it was computed");
  }
  const layout::SequenceRecord old = *found->record;
  KVD_ASSERT(old.cell_count == part.past_cells &&
             old.extents[0].entry_count <= part.extents.size());

  // New entries go behind the committed ones; a full list is first copied to a longer one.
  const layout::ListRoot old_root = old.extents[0];
  const auto entry_count = static_cast<std::uint32_t>(part.extents.size());
  const std::span<const layout::Extent> added =
      std::span(part.extents).subspan(old_root.entry_count);
  layout::ListRoot root = old_root;
  const bool moves = std::uint64_t{entry_count} * sizeof(layout::Extent) >
                     std::uint64_t{old_root.capacity_units} * layout::kListUnitBytes;
  if (moves) {
    Result<layout::ListRoot> allocated = AllocateList(entry_count);
    if (!allocated) {
      ReleasePart(plan, index);
      return std::unexpected(std::move(allocated).error());
    }
    root = *allocated;
    const auto entries = meta_.entries(old_root);
    std::copy(entries.begin(), entries.end(), meta_.list(root.first_unit));
  }
  if (!added.empty()) {
    std::copy(added.begin(), added.end(), meta_.list(root.first_unit) + old_root.entry_count);
    root.entry_count = entry_count;
    root.crc = Crc32c(old_root.crc, std::as_bytes(added));
  }

  layout::SequenceRecord record = old;
  record.extents[0] = root;
  record.cell_count += part.new_cells;
  record.next_pos =
      static_cast<std::int32_t>(std::int64_t{part.first_new_pos.value} + part.new_cells);
  SetPristine(&record,
              old.pristine_cells == old.cell_count ? record.cell_count : old.pristine_cells);
  record.state_slot = part.state_to;
  record.logits_slot = layout::kNoSlot;
  ++record.edit_number;
  log_.Begin();
  PutRecord(found->index, record);
  if (Status status = log_.Commit(); !status) {
    if (moves) FreeList(root);
    ReleasePart(plan, index);
    return status;
  }
  ++content_numbers_[found->index];

  // From the first entry that changed: the last old one, if it grew.
  const ExtentView old_view{std::span(part.extents).first(old_root.entry_count), old.cell_count};
  const ExtentView new_view{part.extents, record.cell_count};
  old_pieces_.clear();
  new_pieces_.clear();
  for (std::size_t at = part.first_new_extent; at < old_view.entries.size(); ++at) {
    old_pieces_.push_back(old_view.PieceAt(at));
  }
  for (std::size_t at = part.first_new_extent; at < new_view.entries.size(); ++at) {
    new_pieces_.push_back(new_view.PieceAt(at));
  }
  RecountPieces(holders_[found->index]);
  if (moves) FreeList(old_root);
  RecountState(old, record, holders_[found->index]);
  ReleasePart(plan, index);
  return {};
}

void UnifiedMemory::ReleasePart(StepPlan& plan, std::size_t index) {
  KVD_ASSERT(open_parts_[index].is_open);
  open_parts_[index].is_open = false;
  const std::uint32_t state = plan.sequences[index].state_to;
  if (state != layout::kNoSlot) state_allocator_.Release(state, tables_.states);
  ForEachReservedBlock(plan.sequences[index],
                       [&](std::uint32_t block) { allocator_.Release(block, tables_.blocks); });
}

void UnifiedMemory::Abandon(StepPlan& plan, std::size_t index) {
  const std::scoped_lock lock(mutex_);
  KVD_ASSERT(index < plan.count);
  ReleasePart(plan, index);
}

void UnifiedMemory::EndStep(StepPlan& plan) {
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t index = 0; index < plan.count; ++index)
      KVD_ASSERT(!open_parts_[index].is_open);
    plan.count = 0;
    EndAllocations();
  }
  ReturnUnusedSlabs();
}

}  // namespace kvd
