#include "engine/memory/prefix_cache.h"

#include <algorithm>
#include <string>

#include "engine/memory/cell_edit.h"
#include "engine/memory/eviction.h"
#include "engine/memory/prefix_sync.h"
#include "engine/memory/record_functions.h"
#include "engine/memory/transaction.h"

namespace kvd {

// ---- prefix cache

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
  KVD_TRY(const FoundSequence to, store_.FindUnpublished(request.destination));
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

// ---- retain
// Makes a sequence that its client has released part of the prefix cache.
Result<bool> PrefixCache::Retain(SequenceHandle handle, const RequestTag& tag) {
  bool stays = false;
  {
    const MutexLock lock(store_.mutex);
    KVD_TRY(const FoundSequence found, store_.FindUnpublished(handle));
    KVD_TRY(stays, RetainFound(found, tag));
  }
  if (!stays) store_.ReturnUnusedSlabs();
  return stays;
}

std::uint32_t PrefixCache::CountRetainable(const FoundSequence& found) const {
  const std::uint32_t pristine = store_.prefix.index.depth(found.index);
  if (!store_.has_state() || pristine == found.record->cell_count) return pristine;
  // With recurrent state, only the cells up to the last checkpoint within the pristine cells can be
  // reused.
  const auto checkpoints = store_.meta.checkpoints(found.record->checkpoints);
  const auto behind =
      std::ranges::upper_bound(checkpoints, pristine, {}, &layout::Checkpoint::cell_count);
  return behind == checkpoints.begin() ? 0 : std::prev(behind)->cell_count;
}

Result<bool> PrefixCache::RetainFound(const FoundSequence& found, const RequestTag& tag) {
  const layout::SequenceRecord& old = *found.record;
  const SequenceHandle handle = MakeHandle(found.index, old.generation);
  if ((old.flags & layout::kSequenceRetained) != 0) {
    KVD_CHECK_OK(CommitNothing(store_, tag, handle));
    return true;
  }
  const bool is_pinned = (old.flags & layout::kSequencePinned) != 0;
  const std::uint32_t kept = CountRetainable(found);
  bool stays = is_pinned || kept >= kCellsMin;
  if (!is_pinned && kept == old.cell_count && IsRetainedElsewhere(found.index)) stays = false;
  if ((old.flags & layout::kSequenceEphemeral) != 0) stays = false;
  Transaction transaction(store_, tag);
  layout::SequenceRecord record = old;
  if (stays && !is_pinned && kept < old.cell_count) {
    Result<layout::SequenceRecord> cut = CutTail(store_, transaction, found.index, kept);
    if (cut) record = *cut;
    // CutTail fails if a window has dropped cells that the next token reaches.
    stays = cut.has_value();
  }
  if (!stays) {
    transaction.Free(found.index);
    transaction.Answer(SequenceHandle::kNone, 1);
    KVD_CHECK_OK(transaction.Commit());
    return false;
  }
  // One commit cuts the sequence and sets its flag. Tokens without cells are lost.
  record.given = kEmptyList;
  record.given_from = 0;
  record.flags |= layout::kSequenceRetained;
  const bool is_cut = record.cell_count < old.cell_count;
  if (is_cut) {
    NoteEdit(store_, transaction,
             {.index = found.index, .of = &old, .cells = {record.cell_count, old.cell_count}},
             &record);
  }
  transaction.Put(found.index, record, is_cut ? Change::kEdited : Change::kFacts);
  transaction.Answer(handle, old.cell_count - record.cell_count);
  KVD_CHECK_OK(transaction.Commit());
  NoteUse(store_, found.index);
  return true;
}

bool PrefixCache::IsRetainedElsewhere(std::uint32_t index) const {
  // With recurrent states, a prompt can take a prefix only at a sequence's checkpoints; with
  // windows, only a prefix that ends near the sequence's end. Another sequence with the same tokens
  // therefore does not replace this sequence.
  const layout::MetaGeometry& geometry = store_.geometry();
  if (store_.has_state() ||
      std::ranges::any_of(geometry.window, [](auto cells) { return cells != 0; })) {
    return false;
  }
  return store_.prefix.index.IsCovered(index, [this](std::uint32_t other) {
    return (store_.meta.sequences()[other].flags & layout::kSequenceRetained) != 0;
  });
}

std::uint32_t PrefixCache::LimitRetained(std::uint32_t sequences_max) {
  std::uint32_t count = 0;
  bool goes_on = true;
  while (goes_on) {
    // The mutex is locked for each eviction separately, because dropping a long sequence visits all
    // of its cells.
    const MutexLock lock(store_.mutex);
    if (store_.prefix.retained.size() <= sequences_max) break;
    const std::uint32_t index = *store_.prefix.retained.Least(store_.prefix.use_number);
    goes_on = Evict(store_, index);
    count += goes_on;
  }
  if (count > 0) store_.ReturnUnusedSlabs();
  return count;
}

// ---- prefix neighbour
// Finds the sequence that has the most tokens in common with a prompt, and the token that follows
// the common tokens in that sequence. The result explains why no more tokens of the prompt are
// reused. The search covers only the namespaces that Take searches.
PrefixNeighbour PrefixCache::FindNeighbour(const SequenceOwner& owner,
                                           std::span<const TokenId> tokens) const {
  const MutexLock lock(store_.mutex);
  PrefixNeighbour nearest;
  PrefixIndex::Match match;
  for (const PrefixSpace& space :
       {PrivateSpace(owner.id, owner.namespace_salt), PublishedSpace(owner.id, false),
        PublishedSpace(owner.id, true)}) {
    store_.prefix.index.Find(space, tokens, PrefixIndex::Serves::kAnyDepth, &match);
    for (const PrefixIndex::Candidate& candidate : match.candidates) {
      const layout::SequenceRecord& record = store_.meta.sequences()[candidate.sequence];
      const bool goes_on = record.cell_count > candidate.depth;
      // Of several sequences with the same number of common tokens, a sequence that has a next
      // token is preferred.
      const bool is_nearer =
          candidate.depth > nearest.common ||
          (candidate.depth == nearest.common && goes_on && !nearest.next.has_value());
      if (candidate.depth == 0 || !is_nearer) continue;
      nearest = {.sequence = MakeHandle(candidate.sequence, record.generation),
                 .common = candidate.depth};
      if (goes_on) nearest.next = store_.CellsOf(record).RecordAt(candidate.depth).token;
    }
  }
  return nearest;
}

}  // namespace kvd
