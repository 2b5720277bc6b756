// Retained sequences: what stays of a sequence that its client let go, and what goes when room is
// needed.
//
// The order (EvictionOrder): a retained sequence is worth the tokens that would have to be computed
// again without it, those that no other sequence begins with, divided by how many uses of others lie
// since its own last one. What is worth least goes first; pinned ones never go.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"

namespace kvd {

Result<bool> UnifiedMemory::Retain(SequenceHandle handle, const AppliedRequest& applied) {
  bool stays = false;
  {
    const MutexLock lock(mutex_);
    const Applying applying(this, applied);
    KVD_TRY(const Found found, FindMutable(handle));
    KVD_TRY(stays, RetainFound(found.index));
  }
  if (!stays) ReturnUnusedSlabs();
  return stays;
}

Result<bool> UnifiedMemory::RetainFound(std::uint32_t index) {
  const layout::SequenceRecord& record = meta_.sequences()[index];
  if ((record.flags & layout::kSequenceRetained) != 0) {
    KVD_CHECK_OK(CommitNothing(MakeHandle(index, record.generation)));
    return true;
  }
  const auto drop = [&]() -> Result<bool> {
    mutex_.AssertHeld();
    dropped_.assign(1, index);
    KVD_CHECK_OK(DropCollected());
    return false;
  };
  const bool is_pinned = (record.flags & layout::kSequencePinned) != 0;
  std::uint32_t kept = prefixes_.depth(index);
  if (has_state() && kept < record.cell_count) {
    // No further than a state is at hand.
    const auto checkpoints = meta_.checkpoints(record.checkpoints);
    const auto behind =
        std::ranges::upper_bound(checkpoints, kept, {}, &layout::Checkpoint::cell_count);
    kept = behind == checkpoints.begin() ? 0 : std::prev(behind)->cell_count;
  }
  if (!is_pinned &&
      (kept < kPrefixCellsMin || (kept == record.cell_count && IsRetainedElsewhere(index)))) {
    return drop();
  }
  if (kept < record.cell_count && !is_pinned) {
    // The cut and the flag in one commit.
    // A window may have lost what is before the cut.
    if (!CutTail(index, kept, layout::kSequenceRetained)) return drop();
  } else {
    layout::SequenceRecord retained = record;
    retained.flags |= layout::kSequenceRetained;
    ++retained.edit_number;
    KVD_CHECK_OK(PutOwner(index, retained));
  }
  NoteUse(index);
  return true;
}

bool UnifiedMemory::IsRetainedElsewhere(std::uint32_t index) const {
  // A state serves where it is kept, and a window's cells only near their end.
  const layout::MetaGeometry& geometry = meta_.geometry();
  if (has_state() || std::ranges::any_of(geometry.window, [](auto cells) { return cells != 0; })) {
    return false;
  }
  return prefixes_.IsCovered(index, [this](std::uint32_t other) {
    return (meta_.sequences()[other].flags & layout::kSequenceRetained) != 0;
  });
}

// ---------------------------------------------------------------------------------------- eviction

bool UnifiedMemory::IsMet(const Need& need) const {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    // Blocks that a step still reads are free at its end: more evictions would not help sooner.
    const std::uint64_t coming = allocators_[group].free_blocks() + need.evicted[group];
    if (coming < need.blocks[group]) return false;
  }
  if (tables_.sequences.free_count() < need.sequences) return false;
  if (tables_.lists.free_units() < need.list_units) return false;
  return need.states == 0 || states_.free_slots() + CountSpareStates() >= need.states;
}

bool UnifiedMemory::CanBeMet(const Need& need) const {
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const std::uint64_t blocks =
        allocators_[group].free_blocks() + tables_.blocks[group].reclaimable_blocks();
    if (blocks < need.blocks[group]) return false;
  }
  if (tables_.sequences.free_count() + retained_.size() < need.sequences) return false;
  return need.states == 0 ||
         states_.free_slots() + CountSpareStates() + tables_.states.reclaimable_slots() >=
             need.states;
}

void UnifiedMemory::MakeRoom(const Need& need, std::array<std::uint32_t, 2> kept) {
  if (!evicts_ || retained_.size() == 0 || IsMet(need) || !CanBeMet(need)) return;
  Need wanted = need;
  std::vector<std::uint32_t> passed_over;
  while (!IsMet(wanted)) {
    const std::optional<std::uint32_t> least = retained_.Least(use_number_);
    if (!least) break;
    const std::uint32_t index = *least;
    if (std::ranges::find(kept, index) == kept.end()) {
      std::array<std::uint64_t, layout::kGroupsMax> accounted = {};  // used or free
      for (std::uint32_t group = 0; group < group_count(); ++group) {
        accounted[group] = tables_.blocks[group].used_blocks() + allocators_[group].free_blocks();
      }
      Evict(index);
      for (std::uint32_t group = 0; group < group_count(); ++group) {
        wanted.evicted[group] += accounted[group] - tables_.blocks[group].used_blocks() -
                                 allocators_[group].free_blocks();
      }
    }
    // One that is kept, or could not be dropped.
    if (retained_.contains(index)) {
      retained_.Erase(index);
      passed_over.push_back(index);
    }
  }
  for (const std::uint32_t index : passed_over) PutInOrder(index);
}

void UnifiedMemory::MakeRoomForLists(std::array<std::uint32_t, 2> kept) {
  constexpr std::uint32_t kPart = 16;
  MakeRoom({.list_units = meta_.geometry().list_unit_count / kPart}, kept);
}

void UnifiedMemory::Evict(std::uint32_t index) {
  const std::uint32_t unshared = prefixes_.CountUnshared(index);
  const std::vector<TokenId> tokens = prefixes_.Tokens(index);
  const PrefixSpace space = prefixes_.space(index);
  if (!DropIndex(index)) return;
  if (unshared > 0) evicted_.Add(space, tokens);
  ++prefix_counters_.evictions;
  prefix_counters_.tokens_evicted += unshared;
}

Status UnifiedMemory::DropIndex(std::uint32_t index) {
  // Nothing that the verb at work asked for: no part of what it will be found to have done.
  const AppliedRequest* const applying = std::exchange(applying_, nullptr);
  dropped_.assign(1, index);
  Status status = DropCollected();
  applying_ = applying;
  return status;
}

UnifiedMemory::Need UnifiedMemory::NeedOf(std::span<const AppendRequest> requests) const {
  Need need;
  for (const AppendRequest& request : requests) {
    const Result<Found> found = Find(request.handle);
    if (!found) continue;
    if (has_state()) ++need.states;
    for (std::uint32_t group = 0; group < group_count(); ++group) {
      if (is_cross(group)) continue;
      const NewCells cells = PlanAppend(*found->record, group, CountNewCells(request));
      // Of two that would fill one tail the second one finds it taken.
      need.blocks[group] += cells.fresh_blocks + (cells.tail_count > 0 && requests.size() > 1);
    }
  }
  return need;
}

std::uint32_t UnifiedMemory::LimitRetained(std::uint32_t sequences_max) {
  std::uint32_t count = 0;
  bool goes_on = true;
  while (goes_on) {
    // One under each lock: dropping a long one takes a look at all of its cells.
    const MutexLock lock(mutex_);
    if (retained_.size() <= sequences_max) break;
    const std::uint32_t index = *retained_.Least(use_number_);
    Evict(index);
    goes_on = !retained_.contains(index);  // else it could not be dropped
    count += goes_on;
  }
  if (count > 0) ReturnUnusedSlabs();
  return count;
}

}  // namespace kvd
