// Restores: saved content of a sequence is written into the pool. Begin reserves all cells and
// slots of the restore. The caller fills the bytes without the lock, while steps and verbs run. One
// commit then makes the sequence refer to all reserved cells and slots.
//
// Only fresh blocks are taken, and their reservations end with the restore. No step, rewrite or
// defragmentation reads the fresh blocks before the commit, so a failed restore frees them at once.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "engine/memory/eviction.h"
#include "engine/memory/holds_and_restores.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {
namespace {

// The number of blocks that are made safe to write under one lock of growth_mutex.
constexpr std::size_t kBlocksOfOneGrowth = 64;

std::unexpected<Error> BadNumber(const std::string& field, std::int64_t number,
                                 const std::string& limit) {
  return Fail(Code::kInvalidArgument, field, ": ", number, ", ", limit);
}

Status CheckPositions(std::span<const Pos> positions) {
  // The position of the previous cell. Two cells may have equal positions, because a division of
  // positions can make them equal.
  std::int64_t last = 0;
  for (std::size_t at = 0; at < positions.size(); ++at) {
    const std::int64_t position = positions[at].value;
    const std::string field = Concat("position of cell ", at);
    if (position < last) {
      return BadNumber(field, position, Concat("at least ", last));
    }
    if (position > kLastPos) {
      return BadNumber(field, position, Concat("at most ", kLastPos));
    }
    last = position;
  }
  return {};
}

}  // namespace

Status Restores::CheckRestore(const RestoreRequest& request) const {
  const std::size_t count = request.tokens.size();
  if (request.positions.size() != count) {
    return BadNumber("positions", static_cast<std::int64_t>(request.positions.size()),
                     Concat("for ", count, " tokens"));
  }
  if (count > static_cast<std::size_t>(kLastPos) ||
      request.cross_tokens.size() > static_cast<std::size_t>(kLastPos)) {
    return BadNumber("tokens",
                     static_cast<std::int64_t>(std::max(count, request.cross_tokens.size())),
                     Concat("at most ", kLastPos));
  }
  KVD_CHECK_OK(CheckPositions(request.positions));
  if (request.key_form >= layout::kKeyFormsMax) {
    return BadNumber("key form", request.key_form, Concat("must be below ", layout::kKeyFormsMax));
  }
  if (request.pristine_cells > count) {
    return BadNumber("pristine cells", request.pristine_cells,
                     Concat("the sequence has only ", count, " cells"));
  }
  for (std::uint32_t at = 0; at < request.pristine_cells; ++at) {
    if (std::cmp_not_equal(request.positions[at].value, at)) {
      return BadNumber("pristine cells", request.pristine_cells,
                       Concat("but cell ", at, " is at another position"));
    }
  }
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const bool may_drop = store_.geometry().window[group] != 0;
    if (request.first_cell[group] > (may_drop ? count : 0)) {
      return BadNumber(Concat("first cell of group ", group), request.first_cell[group],
                       may_drop ? Concat("the sequence has only ", count, " cells")
                                : "must be 0, because the group has no window");
    }
  }
  std::uint32_t last = 0;
  for (const std::uint32_t cells : request.checkpoint_cells) {
    if (cells <= last || cells > count) {
      return BadNumber("cells of a checkpoint", cells,
                       Concat("must be above ", last, ", at most ", count));
    }
    last = cells;
  }
  if (!store_.has_state() && (request.has_state || !request.checkpoint_cells.empty())) {
    return Fail(Code::kUnsupported, "recurrent state: given, but the model has no recurrent state");
  }
  if (store_.has_state() && count > 0 && !request.has_state) {
    return Fail(Code::kInvalidArgument, "recurrent state: missing, but the model needs one");
  }
  if (count == 0 && (request.has_state || request.has_logits)) {
    return Fail(Code::kInvalidArgument, "recurrent state or logits: given without cells");
  }
  const bool has_cross = store_.geometry().cross_group != layout::kNoSlot;
  if (!has_cross && !request.cross_tokens.empty()) {
    return Fail(Code::kUnsupported, "encoded text: given, but the model has no encoder");
  }
  if (has_cross && request.cross_tokens.empty() && count > 0) {
    return Fail(Code::kInvalidArgument,
                "encoded text: missing, but the model's cells depend on one");
  }
  return {};
}

Result<FoundSequence> Restores::FindEmpty(SequenceHandle handle) const {
  KVD_TRY(const FoundSequence found, store_.FindMutable(handle));
  if (found.record->cell_count == 0 && found.record->cross_cells == 0) return found;
  return Fail(Code::kExists, HandleText(handle), ": holds ", found.record->cell_count,
              " cells; only an empty sequence can be restored");
}

// Cells that the next token does not reach are left out, even if they are only a part of a block:
// the restored list starts with the first cell that is kept.
Status Restores::ReserveRestored(const RestoreRequest& request,
                                 const layout::SequenceRecord& record, Restore* restore) {
  std::array<std::uint32_t, layout::kGroupsMax> first_cell = request.first_cell;
  Need need{.states = store_.has_state() && restore->cell_count > 0 ? 1u : 0u};
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    GroupPart& part = restore->parts[group];
    part.cell_count = store_.is_cross(group) ? restore->cross_cells : restore->cell_count;
    std::uint32_t& first = first_cell[group];
    if (const std::int64_t window = store_.geometry().window[group]; window != 0) {
      if (first > 0) {
        KVD_CHECK_OK(
            store_.CheckWindow(group, request.positions[first - 1].value, restore->next_pos));
      }
      while (first < part.cell_count &&
             restore->next_pos - std::int64_t{request.positions[first].value} >= window) {
        ++first;
      }
    }
    part.first_cell = first;
    need.blocks[group] = (part.cell_count - first + layout::kBlockCells - 1) / layout::kBlockCells;
  }
  MakeRoom(store_, need, {IndexOf(restore->handle), layout::kNoSlot});
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (need.blocks[group] > CountAvailable(store_, group)) {
      return Fail(Code::kNoSpace, store_.NoBlocks(group, need.blocks[group]));
    }
  }
  Reservation& reservation = restore->reservation;
  if (const Holder holder = HolderOf(record); holder.is_held) {
    KVD_CHECK_OK(reservation.Count(
        {.owner = holder.owner, .blocks = need.blocks, .state_slots = need.states}));
  }
  if (need.states > 0) KVD_CHECK_OK(FindStates(store_, need.states));
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    GroupPart& part = restore->parts[group];
    for (std::uint32_t start = part.first_cell; start < part.cell_count;) {
      const std::uint32_t count = std::min(part.cell_count - start, layout::kBlockCells);
      part.extents.push_back({reservation.TakeBlock(group, count), start, 0, 0, 0});
      start += count;
    }
  }
  ReserveRestoredSlots(request, record, restore);
  return {};
}

void Restores::ReserveRestoredSlots(const RestoreRequest& request,
                                    const layout::SequenceRecord& record, Restore* restore) {
  Reservation& reservation = restore->reservation;
  if (request.has_state) restore->state_slot = reservation.TakeState();
  // Checkpoints are a cache: if there are too few free slots, only the last checkpoints are
  // restored.
  const OwnerId owner{record.owner};
  std::size_t room = CountCheckpointRoom(store_, owner);
  const auto& wanted = request.checkpoint_cells;
  for (std::size_t at = wanted.size(); at-- > 0 && room > 0; --room) {
    if (restore->checkpoints.size() == kCheckpointsMax) break;
    const bool is_last = wanted[at] == restore->cell_count;
    if (!is_last && store_.states.free_slots() == 0) break;
    const std::uint32_t slot = is_last ? restore->state_slot : reservation.TakeState();
    restore->checkpoints.push_back({wanted[at], slot, {}});
  }
  std::ranges::reverse(restore->checkpoints);
  if (!request.has_logits || store_.geometry().logits_row_count == 0) return;
  if (FindLogits(store_, owner)) restore->logits_slot = reservation.TakeLogits();
}

Result<Restore> Restores::Begin(const RestoreRequest& request) {
  Result<Restore> restore = TryBegin(request);
  if (store_.AwaitBriefHolds(restore)) restore = TryBegin(request);
  return restore;
}

Result<Restore> Restores::TryBegin(const RestoreRequest& request) {
  // The restore is declared before the locks, so that its reservation is released after the locks
  // are unlocked.
  Restore restore;
  {
    const MutexLock growth(store_.growth_mutex);
    const MutexLock lock(store_.mutex);
    KVD_CHECK_OK(CheckRestore(request));
    KVD_TRY(const FoundSequence found, FindEmpty(request.handle));
    restore.handle = request.handle;
    restore.cell_count = static_cast<std::uint32_t>(request.tokens.size());
    restore.cross_cells = static_cast<std::uint32_t>(request.cross_tokens.size());
    restore.pristine_cells = request.pristine_cells;
    restore.next_pos = request.positions.empty() ? 0 : request.positions.back().value + 1;
    restore.content_number = store_.facts[found.index].content_number;
    restore.applied = request.applied;
    MakeRoomForLists(store_, {found.index, layout::kNoSlot});
    restore.reservation.Open(store_);
    KVD_CHECK_OK(ReserveRestored(request, *found.record, &restore));
  }
  if (!request.grows_later) KVD_CHECK_OK(GrowForRestore(restore));
  WriteRestoredCells(request, restore);
  return restore;
}

Status Restores::GrowForRestore(const Restore& restore) {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const std::span<const layout::Extent> extents = restore.parts[group].extents;
    for (std::size_t first = 0; first < extents.size(); first += kBlocksOfOneGrowth) {
      const MutexLock growth(store_.growth_mutex);
      const std::size_t count = std::min(kBlocksOfOneGrowth, extents.size() - first);
      for (const layout::Extent& extent : extents.subspan(first, count)) {
        KVD_CHECK_OK(store_.EnsureBlock(group, extent.block));
      }
    }
  }
  const MutexLock growth(store_.growth_mutex);
  if (restore.state_slot != layout::kNoSlot) {
    KVD_CHECK_OK(store_.EnsureState(restore.state_slot));
  }
  for (const layout::Checkpoint& checkpoint : restore.checkpoints) {
    KVD_CHECK_OK(store_.EnsureState(checkpoint.state_slot));
  }
  if (restore.logits_slot == layout::kNoSlot) return {};
  return store_.EnsureLogits(restore.logits_slot);
}

void Restores::WriteRestoredCells(const RestoreRequest& request, const Restore& restore) {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const ExtentView view = restore.parts[group].view();
    for (std::size_t at = 0; at < view.entries.size(); ++at) {
      const BlockRange range = view.RangeAt(at);
      for (std::uint32_t k = 0; k < range.count; ++k) {
        const std::uint32_t ordinal = view.entries[at].start + k;
        const TokenId token =
            store_.is_cross(group) ? request.cross_tokens[ordinal] : request.tokens[ordinal];
        const std::int32_t position = store_.is_cross(group) ? static_cast<std::int32_t>(ordinal)
                                                             : request.positions[ordinal].value;
        store_.WriteCell(group, range.block, k, token, position, request.key_form);
      }
    }
  }
}

Status Restores::Commit(Restore& restore) {
  Status status = {};
  {
    const MutexLock lock(store_.mutex);
    KVD_ASSERT(restore.reservation.is_open());
    const Result<FoundSequence> found = FindEmpty(restore.handle);
    if (!found || store_.facts[found->index].content_number != restore.content_number) {
      status = Fail(Code::kConflict, HandleText(restore.handle), ": changed while it was restored");
    } else {
      status = CommitRestored(found->index, restore);
    }
    restore.reservation.GiveBack();
  }
  store_.ReturnUnusedSlabs();
  return status;
}

Status Restores::CommitRestored(std::uint32_t index, Restore& restore) {
  layout::SequenceRecord record = store_.meta.sequences()[index];
  record.cell_count = restore.cell_count;
  record.cross_cells = restore.cross_cells;
  record.next_pos = restore.next_pos;
  record.state_slot = restore.state_slot;
  // Since the reservation, other sequences may have used up the room for checkpoints and logits.
  const OwnerId owner{record.owner};
  const bool keeps_logits =
      restore.logits_slot != layout::kNoSlot && MayKeepLogits(store_, restore.logits_slot, owner);
  record.logits_slot = keeps_logits ? restore.logits_slot : layout::kNoSlot;
  store_.checkpoints.assign(restore.checkpoints.begin(), restore.checkpoints.end());
  TrimCheckpoints(store_, owner);
  SetPristine(&record, restore.pristine_cells);
  Transaction transaction(store_, restore.applied);
  std::vector<BlockRange>& ranges = store_.scratch.moved_pieces;
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const GroupPart& part = restore.parts[group];
    ranges.clear();
    AppendEntries(&ranges, part.view(), 0);
    KVD_TRY(record.extents[group], transaction.WriteList(ranges, part.first_cell));
    record.first_cell[group] = store_.is_cross(group) ? 0 : part.first_cell;
  }
  KVD_TRY(record.checkpoints, transaction.WriteCheckpoints(store_.checkpoints));
  transaction.Put(index, record, Change::kComputed);
  transaction.Answer(restore.handle, restore.cell_count + restore.cross_cells);
  restore.reservation.Uncount();  // the commit counts the same resources
  return transaction.Commit();
}

}  // namespace kvd
