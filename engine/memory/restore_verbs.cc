// Restores: the content of a sequence comes back from elsewhere. Everything is found first, as for a
// step; the bytes are filled without the lock, for as long as that takes, while steps and verbs go
// on; then one commit makes the sequence refer to all of it.
//
// Only fresh blocks are taken, and their reservations end with the restore: no reader of this
// process can know them earlier, so nothing has to be kept in limbo.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "engine/memory/hold_and_restore.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::int32_t kLastPos = std::numeric_limits<std::int32_t>::max() - 1;
// How many blocks are made safe to write while others who need blocks wait.
constexpr std::size_t kBlocksOfOneGrowth = 64;

std::unexpected<Error> BadNumber(const std::string& field, std::int64_t number,
                                 const std::string& limit) {
  return Fail(Code::kInvalidArgument, field + ": " + std::to_string(number) + ", " + limit);
}

Status CheckPositions(std::span<const Pos> positions) {
  std::int64_t last = 0;  // dividing makes equal ones
  for (std::size_t at = 0; at < positions.size(); ++at) {
    const std::int64_t position = positions[at].value;
    const std::string field = "position of cell " + std::to_string(at);
    if (position < last) {
      return BadNumber(field, position, "at least " + std::to_string(last));
    }
    if (position > kLastPos) {
      return BadNumber(field, position, "at most " + std::to_string(kLastPos));
    }
    last = position;
  }
  return {};
}

}  // namespace

Status UnifiedMemory::CheckRestore(const RestoreRequest& request) const {
  const std::size_t count = request.tokens.size();
  if (request.positions.size() != count) {
    return BadNumber("positions", static_cast<std::int64_t>(request.positions.size()),
                     "for " + std::to_string(count) + " tokens");
  }
  if (count > static_cast<std::size_t>(kLastPos) ||
      request.cross_tokens.size() > static_cast<std::size_t>(kLastPos)) {
    return BadNumber("tokens",
                     static_cast<std::int64_t>(std::max(count, request.cross_tokens.size())),
                     "at most " + std::to_string(kLastPos));
  }
  KVD_CHECK_OK(CheckPositions(request.positions));
  if (request.key_form >= layout::kKeyFormsMax) {
    return BadNumber("key form", request.key_form,
                     "there are " + std::to_string(layout::kKeyFormsMax));
  }
  if (request.pristine_cells > count) {
    return BadNumber("pristine cells", request.pristine_cells,
                     "of " + std::to_string(count) + " cells");
  }
  for (std::uint32_t at = 0; at < request.pristine_cells; ++at) {
    if (std::cmp_not_equal(request.positions[at].value, at)) {
      return BadNumber("pristine cells", request.pristine_cells,
                       "but cell " + std::to_string(at) + " is not at its position");
    }
  }
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const bool may_drop = meta_.geometry().window[group] != 0;
    if (request.first_cell[group] > (may_drop ? count : 0)) {
      return BadNumber("first cell of group " + std::to_string(group), request.first_cell[group],
                       may_drop ? "of " + std::to_string(count) + " cells"
                                : "a group without a window holds all");
    }
  }
  std::uint32_t last = 0;
  for (const std::uint32_t cells : request.checkpoint_cells) {
    if (cells <= last || cells > count) {
      return BadNumber(
          "cells of a checkpoint", cells,
          "must be above " + std::to_string(last) + ", at most " + std::to_string(count));
    }
    last = cells;
  }
  if (!has_state() && (request.has_state || !request.checkpoint_cells.empty())) {
    return Fail(Code::kUnsupported, "a recurrent state: the model has none");
  }
  if (has_state() && count > 0 && !request.has_state) {
    return Fail(Code::kInvalidArgument, "no recurrent state: the model needs one");
  }
  if (count == 0 && (request.has_state || request.has_logits)) {
    return Fail(Code::kInvalidArgument, "a recurrent state or logits behind no cells");
  }
  const bool has_cross = meta_.geometry().cross_group != layout::kNoSlot;
  if (!has_cross && !request.cross_tokens.empty()) {
    return Fail(Code::kUnsupported, "an encoded text: the model has no encoder");
  }
  if (has_cross && request.cross_tokens.empty() && count > 0) {
    return Fail(Code::kInvalidArgument, "no encoded text: the model's cells need one");
  }
  return {};
}

Result<UnifiedMemory::Found> UnifiedMemory::FindEmpty(SequenceHandle handle) const {
  KVD_TRY(const Found found, FindMutable(handle));
  if (found.record->cell_count == 0 && found.record->cross_cells == 0) return found;
  return Fail(Code::kExists, HandleText(handle) + ": holds " +
                                 std::to_string(found.record->cell_count) +
                                 " cells; only an empty one can be restored");
}

// Cells that no next token reaches are left out, whole blocks' worth or not: the restored list
// starts anew.
Status UnifiedMemory::ReserveRestored(const RestoreRequest& request, Restore* restore) {
  std::array<std::uint32_t, layout::kGroupsMax> first_cell = request.first_cell;
  Need need{.states = has_state() && restore->cell_count > 0 ? 1u : 0u};
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    GroupPart& part = restore->parts[group];
    part.cell_count = is_cross(group) ? restore->cross_cells : restore->cell_count;
    std::uint32_t& first = first_cell[group];
    if (const std::int64_t window = meta_.geometry().window[group]; window != 0) {
      if (first > 0) {
        KVD_CHECK_OK(CheckWindow(group, request.positions[first - 1].value, restore->next_pos));
      }
      while (first < part.cell_count &&
             restore->next_pos - std::int64_t{request.positions[first].value} >= window) {
        ++first;
      }
    }
    part.first_cell = first;
    need.blocks[group] = (part.cell_count - first + layout::kBlockCells - 1) / layout::kBlockCells;
  }
  MakeRoom(need, {IndexOf(restore->handle), layout::kNoSlot});
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    if (need.blocks[group] > allocators_[group].free_blocks()) {
      return Fail(Code::kNoSpace, NoBlocks(group, need.blocks[group]));
    }
  }
  if (has_state() && restore->cell_count > 0) KVD_CHECK_OK(FindStates(1, /*may_evict=*/false));
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    GroupPart& part = restore->parts[group];
    part.extents.clear();
    for (std::uint32_t start = part.first_cell; start < part.cell_count;) {
      const std::uint32_t count = std::min(part.cell_count - start, layout::kBlockCells);
      part.extents.push_back({allocators_[group].ReserveFresh(count), start, 0, 0, 0});
      start += count;
    }
  }
  ReserveRestoredSlots(request, restore);
  return {};
}

void UnifiedMemory::ReserveRestoredSlots(const RestoreRequest& request, Restore* restore) {
  if (request.has_state) restore->state_slot = states_.TakePinned();
  // Checkpoints are a cache: the last ones, as far as there is room at once.
  const std::uint32_t held = tables_.states.checkpoint_slots();
  const std::uint32_t limit = segments_.geometry.checkpoint_slots;
  std::size_t room = limit > held ? limit - held : 0u;
  const auto& wanted = request.checkpoint_cells;
  for (std::size_t at = wanted.size(); at-- > 0 && room > 0; --room) {
    if (restore->checkpoints.size() == kCheckpointsMax) break;
    const bool is_last = wanted[at] == restore->cell_count;
    if (!is_last && states_.free_slots() == 0) break;
    const std::uint32_t slot = is_last ? restore->state_slot : states_.TakePinned();
    restore->checkpoints.push_back({wanted[at], slot, {}});
  }
  std::ranges::reverse(restore->checkpoints);
  if (!request.has_logits || meta_.geometry().logits_row_count == 0) return;
  if (logits_.free_slots() == 0) GiveUpLogits();
  if (logits_.free_slots() != 0) restore->logits_slot = logits_.TakePinned();
}

Status UnifiedMemory::BeginRestore(const RestoreRequest& request, Restore* restore) {
  Status status = TryBeginRestore(request, restore);
  if (AwaitBriefHolds(status)) status = TryBeginRestore(request, restore);
  return status;
}

Status UnifiedMemory::TryBeginRestore(const RestoreRequest& request, Restore* restore) {
  KVD_ASSERT(!restore->is_open);
  *restore = {};
  {
    const MutexLock growth(growth_mutex_);
    const MutexLock lock(mutex_);
    KVD_CHECK_OK(CheckRestore(request));
    KVD_TRY(const Found found, FindEmpty(request.handle));
    restore->handle = request.handle;
    restore->cell_count = static_cast<std::uint32_t>(request.tokens.size());
    restore->cross_cells = static_cast<std::uint32_t>(request.cross_tokens.size());
    restore->pristine_cells = request.pristine_cells;
    restore->next_pos = request.positions.empty() ? 0 : request.positions.back().value + 1;
    restore->content_number = content_numbers_[found.index];
    restore->applied = request.applied;
    MakeRoomForLists({found.index, layout::kNoSlot});
    KVD_CHECK_OK(ReserveRestored(request, restore));
    restore->is_open = true;
  }
  if (!request.grows_later) {
    if (Status status = GrowForRestore(*restore); !status) {
      AbandonRestore(*restore);
      return status;
    }
  }
  WriteRestoredCells(request, *restore);
  return {};
}

Status UnifiedMemory::GrowForRestore(const Restore& restore) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const std::span<const layout::Extent> extents = restore.parts[group].extents;
    for (std::size_t first = 0; first < extents.size(); first += kBlocksOfOneGrowth) {
      const MutexLock growth(growth_mutex_);
      const std::size_t count = std::min(kBlocksOfOneGrowth, extents.size() - first);
      for (const layout::Extent& extent : extents.subspan(first, count)) {
        KVD_CHECK_OK(EnsureBlock(group, extent.block));
      }
    }
  }
  const MutexLock growth(growth_mutex_);
  if (restore.state_slot != layout::kNoSlot) {
    KVD_CHECK_OK(EnsureState(restore.state_slot));
  }
  for (const layout::Checkpoint& checkpoint : restore.checkpoints) {
    KVD_CHECK_OK(EnsureState(checkpoint.state_slot));
  }
  if (restore.logits_slot == layout::kNoSlot) return {};
  return EnsureLogits(restore.logits_slot);
}

void UnifiedMemory::WriteRestoredCells(const RestoreRequest& request, const Restore& restore) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const ExtentView view = restore.parts[group].view();
    for (std::size_t at = 0; at < view.entries.size(); ++at) {
      const Piece piece = view.PieceAt(at);
      for (std::uint32_t k = 0; k < piece.count; ++k) {
        const std::uint32_t ordinal = view.entries[at].start + k;
        const TokenId token =
            is_cross(group) ? request.cross_tokens[ordinal] : request.tokens[ordinal];
        const std::int32_t position =
            is_cross(group) ? static_cast<std::int32_t>(ordinal) : request.positions[ordinal].value;
        WriteCell(group, piece.block, k, token, position, request.key_form);
      }
    }
  }
}

Status UnifiedMemory::CommitRestore(Restore& restore) {
  Status status = {};
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(restore.is_open);
    const Result<Found> found = FindEmpty(restore.handle);
    if (!found || content_numbers_[found->index] != restore.content_number) {
      status =
          Fail(Code::kConflict, HandleText(restore.handle) + ": changed while it was restored");
    } else {
      const Applying applying(this, restore.applied);
      status = CommitRestored(found->index, restore);
    }
    ReleaseRestore(&restore);
  }
  ReturnUnusedSlabs();
  return status;
}

Status UnifiedMemory::CommitRestored(std::uint32_t index, const Restore& restore) {
  const layout::SequenceRecord old = meta_.sequences()[index];
  layout::SequenceRecord record = old;
  record.checkpoints = kEmptyList;
  for (layout::ListRoot& root : record.extents) root = kEmptyList;
  record.cell_count = restore.cell_count;
  record.cross_cells = restore.cross_cells;
  record.next_pos = restore.next_pos;
  record.state_slot = restore.state_slot;
  record.logits_slot = restore.logits_slot;
  SetPristine(&record, restore.pristine_cells);
  ++record.edit_number;
  const auto write = [&]() -> Status {
    mutex_.AssertHeld();
    for (std::uint32_t group = 0; group < group_count(); ++group) {
      GroupEdit& edit = edits_[group];
      const GroupPart& part = restore.parts[group];
      edit.old_pieces.clear();
      edit.new_pieces.clear();
      AppendEntries(&edit.new_pieces, part.view(), 0);
      KVD_TRY(record.extents[group], WriteList(edit.new_pieces, part.first_cell));
      record.first_cell[group] = is_cross(group) ? 0 : part.first_cell;
    }
    KVD_TRY(record.checkpoints, WriteCheckpoints(restore.checkpoints));
    return CommitRecord(index, record, restore.cell_count + restore.cross_cells);
  };
  if (Status status = write(); !status) {
    FreeLists(record);
    return status;
  }
  computed_numbers_[index] = ++content_numbers_[index];
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    RecountPieces(group, holders_[index]);
  }
  FreeLists(old);
  SettleFreed();
  return {};
}

void UnifiedMemory::ReleaseRestore(Restore* restore) {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    for (const layout::Extent& extent : restore->parts[group].extents) {
      allocators_[group].Release(extent.block, tables_.blocks[group]);
    }
  }
  states_.Unpin(restore->state_slot, tables_.states);
  logits_.Unpin(restore->logits_slot, tables_.logits);
  for (const layout::Checkpoint& checkpoint : restore->checkpoints) {
    if (checkpoint.state_slot != restore->state_slot) {
      states_.Unpin(checkpoint.state_slot, tables_.states);
    }
  }
  restore->is_open = false;
}

void UnifiedMemory::AbandonRestore(Restore& restore) {
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(restore.is_open);
    ReleaseRestore(&restore);
  }
  ReturnUnusedSlabs();
}

}  // namespace kvd
