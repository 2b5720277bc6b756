#include "engine/memory/prefix_cache.h"

#include <algorithm>
#include <string>

#include "engine/memory/cell_edit.h"
#include "engine/memory/eviction.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/transaction.h"

namespace kvd {

// ----------------------------------------------------------------------------------------- finding

std::uint32_t PrefixCache::GivableCells(std::uint32_t index, std::uint32_t depth) const {
  const layout::SequenceRecord& record = store_.meta.sequences()[index];
  for (std::uint32_t group = 0; group < store_.group_count(); ++group) {
    const std::uint32_t window = store_.geometry().window[group];
    const std::uint32_t first = std::min(record.first_cell[group], depth);
    // The position of a pristine cell equals its ordinal.
    if (window != 0 && first > 0 && depth - (first - 1) < window) return 0;
  }
  return depth;
}

PrefixCache::Found PrefixCache::FindBest(const SequenceOwner& owner,
                                         std::span<const TokenId> tokens) const {
  Found found;
  if (tokens.empty()) return found;
  const std::span<const TokenId> usable = tokens.first(tokens.size() - 1);
  const auto serves =
      store_.has_state() ? PrefixIndex::Serves::kPoints : PrefixIndex::Serves::kAnyDepth;
  PrefixIndex::Match match;
  for (const PrefixSpace& space :
       {PrivateSpace(owner.id, owner.namespace_salt), PublishedSpace(owner.id, false),
        PublishedSpace(owner.id, true)}) {
    store_.prefix.index.Find(space, usable, serves, &match);
    found.common = std::max(found.common, match.depth);
    for (const PrefixIndex::Candidate& candidate : match.candidates) {
      const std::uint32_t cells = GivableCells(candidate.sequence, candidate.depth);
      if (cells <= found.cells) continue;
      found.cells = cells;
      found.source = candidate.sequence;
    }
    if (space.kind == PrefixSpace::Kind::kPrivate) found.own = match;
  }
  return found;
}

bool PrefixCache::IsBehindEdit(const PrefixIndex::Match& match,
                               std::span<const TokenId> tokens) const {
  return std::ranges::any_of(match.candidates, [&](const PrefixIndex::Candidate& candidate) {
    store_.mutex.AssertHeld();
    const layout::SequenceRecord& record = store_.meta.sequences()[candidate.sequence];
    return record.pristine_cells == match.depth && record.cell_count > match.depth &&
           store_.CellsOf(record).RecordAt(match.depth).token == tokens[match.depth];
  });
}

PrefixLimit PrefixCache::WhyNotMore(const SequenceOwner& owner, std::span<const TokenId> tokens,
                                    const Found& found) const {
  if (store_.geometry().cross_group != layout::kNoSlot) return PrefixLimit::kUnsupported;
  if (tokens.size() <= kCellsMin) return PrefixLimit::kTooShort;
  if (found.cells + 1 == tokens.size()) return PrefixLimit::kComplete;
  if (found.common > found.cells) {
    return store_.has_state() ? PrefixLimit::kNoCheckpoint : PrefixLimit::kWindowLost;
  }
  // A match in a namespace with another salt is never reported, because salts exist to hide the
  // tokens of one namespace from others. Only a match in the owner's namespace without a salt is
  // reported.
  if (owner.namespace_salt != 0) {
    PrefixIndex::Match unsalted;
    store_.prefix.index.Find(PrivateSpace(owner.id, 0), tokens, PrefixIndex::Serves::kAnyDepth,
                             &unsalted);
    if (unsalted.depth > found.common) return PrefixLimit::kNamespace;
  }
  if (found.own.depth == found.common && IsBehindEdit(found.own, tokens)) {
    return PrefixLimit::kEdited;
  }
  if (store_.prefix.evicted.Contains(PrivateSpace(owner.id, owner.namespace_salt), tokens,
                                     found.common))
    return PrefixLimit::kEvicted;
  return found.common > 0 && found.common < kCellsMin ? PrefixLimit::kTooShort : PrefixLimit::kNone;
}

PrefixTaken PrefixCache::Find(const SequenceOwner& owner, std::span<const TokenId> tokens) const {
  const MutexLock lock(store_.mutex);
  const Found found = FindBest(owner, tokens);
  PrefixTaken taken{.common = found.common, .limit = WhyNotMore(owner, tokens, found)};
  if (found.cells < kCellsMin) return taken;
  taken.cells = found.cells;
  taken.origin = OriginOf(found.source);
  taken.source = MakeHandle(found.source, store_.meta.sequences()[found.source].generation);
  return taken;
}

// ------------------------------------------------------------------------------------------ taking

Result<PrefixTaken> PrefixCache::Take(const PrefixRequest& request) {
  const MutexLock lock(store_.mutex);
  KVD_TRY(const FoundSequence to, store_.FindMutable(request.destination));
  const layout::SequenceRecord& old = *to.record;
  const std::uint32_t held = old.cell_count;
  if (held > request.tokens.size() || old.pristine_cells != held || old.cross_cells != 0 ||
      !HoldsTokens(old, request.tokens)) {
    return Fail(Code::kConflict, HandleText(request.destination), ": holds ", held,
                " cells that are not a pristine prefix of the tokens");
  }
  const SequenceOwner owner{.id = OwnerId{old.owner}, .namespace_salt = old.namespace_salt};
  const Found found = FindBest(owner, request.tokens);
  PrefixTaken taken{.cells = held, .common = found.common};
  taken.limit = WhyNotMore(owner, request.tokens, found);
  if (found.cells < (held == 0 ? kCellsMin : held + 1)) return taken;

  const std::uint32_t source = found.source;
  const layout::SequenceRecord& from = store_.meta.sequences()[source];
  KVD_TRY(NewState state, StateAt(store_, from, found.cells));
  if (!MayKeepLogits(store_, state.logits_slot, OwnerId{old.owner})) {
    state.logits_slot = layout::kNoSlot;
  }
  taken.source = MakeHandle(source, from.generation);
  taken.origin = taken.source == request.loaded ? PrefixOrigin::kDisk : OriginOf(source);
  NoteUse(store_, source);
  MakeRoomForLists(store_, {source, to.index});
  Transaction transaction(store_);
  if (store_.has_state()) {
    CollectCheckpoints(store_, from, found.cells, state.state_slot, OwnerId{old.owner});
    KVD_TRY(state.checkpoints, transaction.WriteCheckpoints(store_.checkpoints));
  }
  const SourceRange sources[] = {{&from, 0, found.cells}};
  KVD_TRY(
      layout::SequenceRecord record,
      EditCells(
          store_, transaction,
          {.index = to.index, .sources = sources, .pristine_cells = found.cells, .state = state}));
  MarkRequest(request.applied, 0, &record);
  transaction.Put(to.index, record, Change::kEdited);
  KVD_CHECK_OK(transaction.Commit());
  taken.cells = found.cells;
  store_.prefix.counters.tokens_reused[static_cast<std::size_t>(taken.origin)] +=
      found.cells - held;
  return taken;
}

bool PrefixCache::HoldsTokens(const layout::SequenceRecord& record,
                              std::span<const TokenId> tokens) const {
  const ExtentView view = store_.ViewOf(record);
  for (std::size_t at = 0; at < view.entries.size(); ++at) {
    const layout::Extent& extent = view.entries[at];
    const layout::CellRecord* const cells = store_.meta.cells(0, extent.block) + extent.first;
    for (std::uint32_t i = 0; i < view.CountOf(at); ++i) {
      if (cells[i].token != tokens[extent.start + i]) return false;
    }
  }
  return true;
}

PrefixCounters PrefixCache::counters() const {
  const MutexLock lock(store_.mutex);
  return store_.prefix.counters;
}

PrefixOrigin PrefixCache::OriginOf(std::uint32_t index) const {
  const std::uint32_t flags = store_.meta.sequences()[index].flags;
  if ((flags & layout::kSequencePublished) != 0) return PrefixOrigin::kSnapshot;
  return (flags & layout::kSequenceRetained) != 0 ? PrefixOrigin::kRetained : PrefixOrigin::kLive;
}

}  // namespace kvd
