// Prefix sharing: the index beside the records, and the verbs that use it.
//
// The index is derived: SyncPrefix brings it to what one record says and may be called at any time
// between two commits. It reads no more tokens than have become pristine since the last call.
#include <algorithm>
#include <string>

#include "engine/memory/record_functions.h"
#include "engine/memory/unified_memory.h"
#include "shm/check.h"

namespace kvd {

// The best that the namespaces of an owner have for a prompt.
struct UnifiedMemory::PrefixFound {
  std::uint32_t source = layout::kNoSlot;
  std::uint32_t cells = 0;
  std::uint32_t common = 0;  // at most all but the prompt's last token
  PrefixIndex::Match own;    // in the owner's own namespace
};

namespace {

PrefixSpace PrivateSpace(const SequenceOwner& owner) {
  return {.kind = PrefixSpace::Kind::kPrivate, .uid = owner.uid, .salt = owner.namespace_salt};
}
PrefixSpace PublishedSpace(std::uint32_t uid, bool is_public) {
  return is_public ? PrefixSpace{.kind = PrefixSpace::Kind::kPublic}
                   : PrefixSpace{.kind = PrefixSpace::Kind::kUser, .uid = uid, .salt = 0};
}

}  // namespace

// ------------------------------------------------------------------------------------------- index

void UnifiedMemory::SyncPrefix(std::uint32_t index) {
  const layout::SequenceRecord& record = meta_.sequences()[index];
  if ((record.flags & layout::kSequenceLive) == 0) {
    tables_.owners.Follow(index, record);
    if (prefixes_.contains(index)) prefixes_.Remove(index);
    return FollowShared();
  }
  // Whom a snapshot is for does not change.
  if ((record.flags & layout::kSequencePublished) != 0 && prefixes_.contains(index)) {
    return IndexRecord(index, PrefixSpace(prefixes_.space(index)));
  }
  IndexRecord(index, PrivateSpace({.uid = record.owner_uid,
                                   .session = SessionId::kNone,
                                   .namespace_salt = record.namespace_salt}));
}

void UnifiedMemory::IndexPublished(std::uint32_t index, bool is_public) {
  IndexRecord(index, PublishedSpace(meta_.sequences()[index].owner_uid, is_public));
}

void UnifiedMemory::IndexRecord(std::uint32_t index, const PrefixSpace& space) {
  const layout::SequenceRecord& record = meta_.sequences()[index];
  tables_.owners.Follow(index, record);
  if (prefixes_.contains(index) && prefixes_.space(index) != space) prefixes_.Remove(index);
  if (!prefixes_.contains(index)) prefixes_.Add(index, space);
  // What a decoder computed belongs to the text that it attended to.
  const bool has_cross = meta_.geometry().cross_group != layout::kNoSlot;
  const std::uint32_t pristine = has_cross ? 0 : record.pristine_cells;
  if (prefixes_.depth(index) > pristine) prefixes_.Cut(index, pristine);
  if (prefixes_.depth(index) < pristine) {
    const ExtentView view = ViewOf(record);
    std::uint32_t ordinal = prefixes_.depth(index);
    tokens_.clear();
    for (std::size_t at = FindExtent(view, ordinal); ordinal < pristine; ++at) {
      const layout::Extent& extent = view.entries[at];
      const layout::CellRecord* const cells = meta_.cells(0, extent.block) + extent.first;
      for (; ordinal < std::min(pristine, view.EndOf(at)); ++ordinal) {
        tokens_.push_back(cells[ordinal - extent.start].token);
      }
    }
    prefixes_.Append(index, tokens_);
  }
  FollowShared();
  if (!has_state()) return;
  points_.clear();
  for (const layout::Checkpoint& checkpoint : meta_.checkpoints(record.checkpoints)) {
    if (checkpoint.cell_count > 0 && checkpoint.cell_count <= pristine)
      points_.push_back(checkpoint.cell_count);
  }
  if (pristine > 0 && pristine == record.cell_count && record.state_slot != layout::kNoSlot &&
      (points_.empty() || points_.back() < pristine)) {
    points_.push_back(pristine);
  }
  prefixes_.SetPoints(index, points_);
}

void UnifiedMemory::IndexFork(std::uint32_t index, std::uint32_t source) {
  const layout::SequenceRecord& record = meta_.sequences()[index];
  const PrefixSpace space = PrivateSpace({.uid = record.owner_uid,
                                          .session = SessionId::kNone,
                                          .namespace_salt = record.namespace_salt});
  const bool is_alike =
      source != layout::kNoSlot && prefixes_.contains(source) && prefixes_.space(source) == space;
  if (is_alike) {
    prefixes_.AddLike(index, source, std::min(record.pristine_cells, prefixes_.depth(source)));
  }
  IndexRecord(index, space);
}

void UnifiedMemory::RebuildPrefixes() {
  retained_.Clear();
  for (std::uint32_t index = 0; index < meta_.geometry().sequence_capacity; ++index) {
    SyncPrefix(index);
    NoteRetained(index);
  }
  for (const auto& [name, snapshot] : tables_.snapshots_by_name) {
    const layout::SnapshotRecord& record = meta_.snapshots()[snapshot];
    IndexPublished(IndexOf(static_cast<SequenceHandle>(record.sequence)), record.is_public != 0);
  }
}

void UnifiedMemory::NoteRetained(std::uint32_t index) {
  const std::uint32_t flags = meta_.sequences()[index].flags;
  constexpr std::uint32_t kMask =
      layout::kSequenceLive | layout::kSequenceRetained | layout::kSequencePinned;
  if ((flags & kMask) == (layout::kSequenceLive | layout::kSequenceRetained)) {
    PutInOrder(index);
  } else {
    retained_.Erase(index);
  }
}

void UnifiedMemory::PutInOrder(std::uint32_t index) {
  retained_.Put(index, {.last_use = last_uses_[index],
                        .created = meta_.sequences()[index].created_unix_ms,
                        .tokens = prefixes_.contains(index) ? prefixes_.CountUnshared(index) : 0});
}

void UnifiedMemory::FollowShared() {
  for (const std::uint32_t index : prefixes_.TakeTouched()) {
    if (retained_.contains(index)) PutInOrder(index);
  }
}

void UnifiedMemory::NoteUse(std::uint32_t index) {
  last_uses_[index] = ++use_number_;
  if (retained_.contains(index)) PutInOrder(index);
}

PrefixOrigin UnifiedMemory::OriginOf(std::uint32_t index) const {
  const std::uint32_t flags = meta_.sequences()[index].flags;
  if ((flags & layout::kSequencePublished) != 0) return PrefixOrigin::kSnapshot;
  return (flags & layout::kSequenceRetained) != 0 ? PrefixOrigin::kRetained : PrefixOrigin::kLive;
}

// ------------------------------------------------------------------------------------------ finding

std::uint32_t UnifiedMemory::GivableCells(std::uint32_t index, std::uint32_t depth) const {
  const layout::SequenceRecord& record = meta_.sequences()[index];
  for (std::uint32_t group = 0; group < group_count(); ++group) {
    const std::uint32_t window = meta_.geometry().window[group];
    const std::uint32_t first = std::min(record.first_cell[group], depth);
    // Pristine cells have their ordinals as positions.
    if (window != 0 && first > 0 && depth - (first - 1) < window) return 0;
  }
  return depth;
}

UnifiedMemory::PrefixFound UnifiedMemory::FindBestPrefix(const SequenceOwner& owner,
                                                         std::span<const TokenId> tokens) const {
  PrefixFound found;
  if (tokens.empty()) return found;
  const std::span<const TokenId> usable = tokens.first(tokens.size() - 1);
  const auto serves = has_state() ? PrefixIndex::Serves::kPoints : PrefixIndex::Serves::kAnyDepth;
  PrefixIndex::Match match;
  for (const PrefixSpace& space :
       {PrivateSpace(owner), PublishedSpace(owner.uid, false), PublishedSpace(owner.uid, true)}) {
    prefixes_.Find(space, usable, serves, &match);
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

bool UnifiedMemory::IsBehindEdit(const PrefixIndex::Match& match,
                                 std::span<const TokenId> tokens) const {
  return std::ranges::any_of(match.candidates, [&](const PrefixIndex::Candidate& candidate) {
    mutex_.AssertHeld();
    const layout::SequenceRecord& record = meta_.sequences()[candidate.sequence];
    return record.pristine_cells == match.depth && record.cell_count > match.depth &&
           CellsOf(record).RecordAt(match.depth).token == tokens[match.depth];
  });
}

PrefixLimit UnifiedMemory::WhyNotMore(const SequenceOwner& owner, std::span<const TokenId> tokens,
                                      const PrefixFound& found) const {
  if (meta_.geometry().cross_group != layout::kNoSlot) return PrefixLimit::kUnsupported;
  if (tokens.size() <= kPrefixCellsMin) return PrefixLimit::kTooShort;
  if (found.cells + 1 == tokens.size()) return PrefixLimit::kComplete;
  if (found.common > found.cells) {
    return has_state() ? PrefixLimit::kNoCheckpoint : PrefixLimit::kWindowLost;
  }
  // Of other salts nothing is told: keeping their tokens apart is what they are for. Without one
  // there is nothing to keep apart.
  if (owner.namespace_salt != 0) {
    PrefixIndex::Match unsalted;
    prefixes_.Find(PrivateSpace({.uid = owner.uid}), tokens, PrefixIndex::Serves::kAnyDepth,
                   &unsalted);
    if (unsalted.depth > found.common) return PrefixLimit::kNamespace;
  }
  if (found.own.depth == found.common && IsBehindEdit(found.own, tokens)) {
    return PrefixLimit::kEdited;
  }
  if (evicted_.Contains(PrivateSpace(owner), tokens, found.common)) return PrefixLimit::kEvicted;
  return found.common > 0 && found.common < kPrefixCellsMin ? PrefixLimit::kTooShort
                                                            : PrefixLimit::kNone;
}

PrefixTaken UnifiedMemory::FindPrefix(const SequenceOwner& owner,
                                      std::span<const TokenId> tokens) const {
  const MutexLock lock(mutex_);
  const PrefixFound found = FindBestPrefix(owner, tokens);
  PrefixTaken taken{.common = found.common, .limit = WhyNotMore(owner, tokens, found)};
  if (found.cells < kPrefixCellsMin) return taken;
  taken.cells = found.cells;
  taken.origin = OriginOf(found.source);
  taken.source = MakeHandle(found.source, meta_.sequences()[found.source].generation);
  return taken;
}

// ------------------------------------------------------------------------------------------- taking

Result<PrefixTaken> UnifiedMemory::TakePrefix(const PrefixRequest& request) {
  const MutexLock lock(mutex_);
  KVD_TRY(const Found to, FindMutable(request.destination));
  const layout::SequenceRecord& old = *to.record;
  const std::uint32_t held = old.cell_count;
  if (held > request.tokens.size() || old.pristine_cells != held || old.cross_cells != 0 ||
      !HoldsTokens(old, request.tokens)) {
    return Fail(Code::kConflict, HandleText(request.destination) + ": holds " +
                                     std::to_string(held) + " cells of another text");
  }
  const SequenceOwner owner{.uid = old.owner_uid, .namespace_salt = old.namespace_salt};
  const PrefixFound found = FindBestPrefix(owner, request.tokens);
  PrefixTaken taken{.cells = held, .common = found.common};
  taken.limit = WhyNotMore(owner, request.tokens, found);
  if (found.cells < (held == 0 ? kPrefixCellsMin : held + 1)) return taken;

  const std::uint32_t source = found.source;
  NoteUse(source);
  MakeRoomForLists({source, to.index});
  const layout::SequenceRecord& from = meta_.sequences()[source];
  KVD_TRY(NewState state, StateAt(from, found.cells));
  if (has_state()) {
    CollectCheckpoints(from, found.cells, state.state_slot);
    KVD_TRY(state.checkpoints, WriteCheckpoints(checkpoints_));
  }
  const Segment segments[] = {{&from, 0, found.cells}};
  taken.source = MakeHandle(source, from.generation);
  taken.origin = taken.source == request.loaded ? PrefixOrigin::kDisk : OriginOf(source);
  taking_ = &request.applied;
  const Status status = ReplaceLists(to.index, segments, found.cells, state);
  taking_ = nullptr;
  KVD_CHECK_OK(status);
  taken.cells = found.cells;
  prefix_counters_.tokens_reused[static_cast<std::size_t>(taken.origin)] += found.cells - held;
  return taken;
}

bool UnifiedMemory::HoldsTokens(const layout::SequenceRecord& record,
                                std::span<const TokenId> tokens) const {
  const ExtentView view = ViewOf(record);
  for (std::size_t at = 0; at < view.entries.size(); ++at) {
    const layout::Extent& extent = view.entries[at];
    const layout::CellRecord* const cells = meta_.cells(0, extent.block) + extent.first;
    for (std::uint32_t i = 0; i < view.CountOf(at); ++i) {
      if (cells[i].token != tokens[extent.start + i]) return false;
    }
  }
  return true;
}

PrefixCounters UnifiedMemory::prefix_counters() const {
  const MutexLock lock(mutex_);
  return prefix_counters_;
}

}  // namespace kvd
