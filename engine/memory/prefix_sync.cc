#include "engine/memory/prefix_sync.h"

#include <algorithm>

namespace kvd {
namespace {

// Updates the eviction order of retained sequences whose number of unshared tokens has changed with
// the index.
void FollowShared(MemoryStore& store) KVD_REQUIRES(store.mutex) {
  for (const std::uint32_t index : store.prefix.index.TakeTouched()) {
    if (store.prefix.retained.contains(index)) PutInOrder(store, index);
  }
}

void IndexTokens(MemoryStore& store, std::uint32_t index, std::uint32_t pristine)
    KVD_REQUIRES(store.mutex) {
  const ExtentView view = store.ViewOf(store.meta.sequences()[index]);
  const std::uint32_t begin = store.prefix.index.depth(index);
  std::vector<TokenId>& tokens = store.scratch.tokens;
  tokens.resize(pristine - begin);
  TokenId* next = tokens.data();
  std::uint32_t ordinal = begin;
  for (std::size_t at = FindExtent(view, begin); ordinal < pristine; ++at) {
    const layout::Extent& extent = view.entries[at];
    const layout::CellRecord* cell = store.meta.cells(0, extent.block) + extent.first;
    cell += ordinal - extent.start;
    const std::uint32_t end = std::min(pristine, view.EndOf(at));
    for (; ordinal < end; ++ordinal) *next++ = (cell++)->token;
  }
  store.prefix.index.Append(index, tokens);
}

// Indexes the depths at which the sequence's recurrent state is kept.
void IndexPoints(MemoryStore& store, std::uint32_t index, std::uint32_t pristine)
    KVD_REQUIRES(store.mutex) {
  const layout::SequenceRecord& record = store.meta.sequences()[index];
  std::vector<std::uint32_t>& points = store.scratch.points;
  points.clear();
  for (const layout::Checkpoint& checkpoint : store.meta.checkpoints(record.checkpoints)) {
    if (checkpoint.cell_count > 0 && checkpoint.cell_count <= pristine)
      points.push_back(checkpoint.cell_count);
  }
  if (pristine > 0 && pristine == record.cell_count && record.state_slot != layout::kNoSlot &&
      (points.empty() || points.back() < pristine)) {
    points.push_back(pristine);
  }
  store.prefix.index.SetPoints(index, points);
}

void IndexRecord(MemoryStore& store, std::uint32_t index, const PrefixSpace& space,
                 std::uint32_t alike) KVD_REQUIRES(store.mutex) {
  const layout::SequenceRecord& record = store.meta.sequences()[index];
  PrefixIndex& prefixes = store.prefix.index;
  if (prefixes.contains(index) && prefixes.space(index) != space) prefixes.Remove(index);
  // With cross attention, cells also depend on the encoded text, so a sequence's tokens do not
  // identify its cells. No prompt takes cells of an ephemeral sequence.
  const bool is_hidden = store.has_cross() || (record.flags & layout::kSequenceEphemeral) != 0;
  const std::uint32_t pristine = is_hidden ? 0 : record.pristine_cells;
  if (!prefixes.contains(index)) {
    if (alike != layout::kNoSlot && prefixes.contains(alike) && prefixes.space(alike) == space) {
      prefixes.AddLike(index, alike, std::min(pristine, prefixes.depth(alike)));
    } else {
      prefixes.Add(index, space);
    }
  }
  if (prefixes.depth(index) > pristine) prefixes.Cut(index, pristine);
  if (prefixes.depth(index) < pristine) IndexTokens(store, index, pristine);
  FollowShared(store);
  if (store.has_state()) IndexPoints(store, index, pristine);
}

}  // namespace

PrefixSpace PrivateSpace(OwnerId owner, std::uint64_t namespace_salt) {
  return {.kind = PrefixSpace::Kind::kPrivate, .owner = owner, .salt = namespace_salt};
}

PrefixSpace PublishedSpace(OwnerId owner, bool is_public) {
  return is_public ? PrefixSpace{.kind = PrefixSpace::Kind::kPublic}
                   : PrefixSpace{.kind = PrefixSpace::Kind::kUser, .owner = owner, .salt = 0};
}

void SyncPrefix(MemoryStore& store, std::uint32_t index, std::uint32_t alike) {
  const layout::SequenceRecord& record = store.meta.sequences()[index];
  PrefixIndex& prefixes = store.prefix.index;
  if ((record.flags & layout::kSequenceLive) == 0) {
    if (prefixes.contains(index)) prefixes.Remove(index);
    return FollowShared(store);
  }
  // The set of users who may see a snapshot does not change.
  const bool is_published =
      (record.flags & layout::kSequencePublished) != 0 && prefixes.contains(index);
  IndexRecord(store, index,
              is_published ? PrefixSpace(prefixes.space(index))
                           : PrivateSpace(OwnerId{record.owner}, record.namespace_salt),
              alike);
}

void IndexPublished(MemoryStore& store, std::uint32_t index, bool is_public) {
  const OwnerId owner{store.meta.sequences()[index].owner};
  IndexRecord(store, index, PublishedSpace(owner, is_public), layout::kNoSlot);
}

void RebuildPrefixes(MemoryStore& store) {
  store.prefix.retained.Clear();
  for (std::uint32_t index = 0; index < store.geometry().sequence_capacity; ++index) {
    SyncPrefix(store, index);
    NoteRetained(store, index);
  }
  for (const auto& [name, snapshot] : store.tables.snapshots_by_name) {
    const layout::SnapshotRecord& record = store.meta.snapshots()[snapshot];
    IndexPublished(store, IndexOf(static_cast<SequenceHandle>(record.sequence)),
                   record.is_public != 0);
  }
}

void NoteRetained(MemoryStore& store, std::uint32_t index) {
  const std::uint32_t flags = store.meta.sequences()[index].flags;
  constexpr std::uint32_t kMask =
      layout::kSequenceLive | layout::kSequenceRetained | layout::kSequencePinned;
  if ((flags & kMask) == (layout::kSequenceLive | layout::kSequenceRetained)) {
    PutInOrder(store, index);
  } else {
    store.prefix.retained.Erase(index);
  }
}

void PutInOrder(MemoryStore& store, std::uint32_t index) {
  PrefixTables& prefix = store.prefix;
  prefix.retained.Put(
      index, {.last_use = prefix.last_uses[index],
              .created = store.meta.sequences()[index].created_unix_ms,
              .tokens = prefix.index.contains(index) ? prefix.index.CountUnshared(index) : 0});
}

void NoteUse(MemoryStore& store, std::uint32_t index) {
  store.prefix.last_uses[index] = ++store.prefix.use_number;
  if (store.prefix.retained.contains(index)) PutInOrder(store, index);
}

}  // namespace kvd
