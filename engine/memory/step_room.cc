// FindRoom: which of the next tokens of several requests have room together. A claim that fits
// takes its room from the claims behind it, so the order of the claims is the order in which room
// is given.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/memory/prefix_sync.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/steps.h"

namespace kvd {
namespace {

using Blocks = std::array<std::uint64_t, layout::kGroupsMax>;

bool IsNone(const Blocks& blocks) { return blocks == Blocks{}; }

}  // namespace

// Room that the claims so far have taken.
struct Steps::TakenRoom {
  Blocks blocks = {};
  std::uint32_t states = 0;
  std::uint32_t free_states = 0;     // that can be had, at the beginning
  std::vector<PendingUse> by_owner;  // of held sequences
  std::vector<std::uint64_t> tails;  // group << 32 | block of the tails that are filled
  std::vector<OwnerId> waiting;      // owners with a claim that waits
};

Steps::ClaimNeed Steps::NeedOf(const layout::SequenceRecord& record, std::uint32_t index,
                               std::size_t tokens, TakenRoom& taken) const {
  const auto new_cells = static_cast<std::uint32_t>(
      std::min<std::size_t>(tokens, std::numeric_limits<std::int32_t>::max()));
  ClaimNeed need{.use = UseOf(record, new_cells)};
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (store_.is_cross(group)) continue;
    const NewCells cells = PlanAppend(record, group, new_cells);
    std::uint64_t blocks = cells.fresh_blocks;
    if (cells.tail_count > 0) {
      const ExtentView view = store_.ViewOf(record, group);
      const std::uint64_t tail =
          std::uint64_t{group} << 32 | view.RangeAt(view.entries.size() - 1).block;
      // Of two claims that would fill the same tail, the second needs a fresh block.
      if (std::ranges::find(taken.tails, tail) != taken.tails.end()) {
        blocks = (new_cells + layout::kBlockCells - 1) / layout::kBlockCells;
      } else {
        need.tails.push_back(tail);
      }
    }
    const std::uint64_t window = store_.geometry().window[group];
    if (window != 0) blocks = std::min(blocks, window / layout::kBlockCells + 1);
    need.blocks[group] = blocks;
    if (HolderOf(record).is_held) need.use.blocks[group] = blocks;
  }
  need.states = store_.has_state() ? 1 : 0;
  const auto promise = store_.shares.promises.find(index);
  if (promise == store_.shares.promises.end()) return need;
  const PendingUse& promised = promise->second.use;
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    need.blocks[group] -= std::min(need.blocks[group], promised.blocks[group]);
    need.use.blocks[group] -= std::min(need.use.blocks[group], promised.blocks[group]);
  }
  need.use.state_slots -= std::min(need.use.state_slots, promised.state_slots);
  return need;
}

Status Steps::CheckPool(const ClaimNeed& need, const TakenRoom& taken) const {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const std::uint64_t wanted = taken.blocks[group] + need.blocks[group];
    if (need.blocks[group] == 0 || wanted <= CountUnpromised(store_, group)) continue;
    return Fail(Code::kNoSpace, store_.NoBlocks(group, need.blocks[group]));
  }
  if (need.states == 0 || taken.states + need.states <= taken.free_states) return {};
  return Fail(Code::kNoSpace, store_.NoStates(need.states));
}

RoomVerdict Steps::VerdictOf(const ClaimNeed& need) const {
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    if (need.blocks[group] > store_.tables.blocks[group].block_count()) return RoomVerdict::kNever;
  }
  return ExceedsLimits(store_, need.use) ? RoomVerdict::kNever : RoomVerdict::kWaits;
}

void Steps::Judge(RoomClaim& claim, TakenRoom& taken) {
  const Result<FoundSequence> found = store_.FindUnpublished(claim.handle);
  // The step reports the error.
  if (!found) return;
  const ClaimNeed need = NeedOf(*found->record, found->index, claim.tokens, taken);
  claim.takes_room = !IsNone(need.blocks) || need.use.state_slots != 0;
  const OwnerId owner{found->record->owner};
  const bool is_behind =
      claim.takes_room && std::ranges::find(taken.waiting, owner) != taken.waiting.end();
  auto known = std::ranges::find(taken.by_owner, owner, &PendingUse::owner);
  if (known == taken.by_owner.end()) {
    known = taken.by_owner.insert(known, PendingUse{.owner = owner});
  }
  PendingUse together = *known;
  for (std::size_t group = 0; group < together.blocks.size(); ++group) {
    together.blocks[group] += need.use.blocks[group];
  }
  together.state_slots += need.use.state_slots;

  Status status = CheckPool(need, taken);
  if (status && HolderOf(*found->record).is_held) {
    status = CheckPending(store_, together);
    claim.is_owner_limit = !status;
  }
  if (status && claim.must_wait) status = Fail(Code::kNoSpace, "waits for room");
  if (status && is_behind) {
    claim.is_behind_owner = true;
    status = Fail(Code::kNoSpace, "an earlier request of the same owner waits for room");
  }
  if (status) {
    *known = together;
    for (std::size_t group = 0; group < need.blocks.size(); ++group) {
      taken.blocks[group] += need.blocks[group];
    }
    taken.states += need.states;
    taken.tails.insert(taken.tails.end(), need.tails.begin(), need.tails.end());
    return;
  }
  claim.reason = std::move(status).error();
  claim.verdict = claim.is_behind_owner ? RoomVerdict::kWaits : VerdictOf(need);
  if (claim.verdict == RoomVerdict::kWaits) taken.waiting.push_back(owner);
}

void Steps::FindRoom(std::span<RoomClaim> claims) {
  const MutexLock lock(store_.mutex);
  TakenRoom taken;
  if (store_.has_state()) {
    taken.free_states = store_.states.free_slots() + CountSpareStates(store_) +
                        store_.tables.states.reclaimable_slots();
  }
  for (RoomClaim& claim : claims) Judge(claim, taken);
}

}  // namespace kvd
