// Slots of recurrent state and rows of logits: which slot a shortened sequence or a fork gets, and
// which slots are freed when other sequences need slots.
//
// A committed slot is as immutable as a cell. Keeping a checkpoint, forking and returning to a
// checkpoint therefore change only references. Checkpoints and kept rows of logits are caches: they
// are freed when their slots are needed, each in a separate commit. Functions that give up entries
// must therefore be called before a transaction is begun.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "engine/memory/memory_store.h"

namespace kvd {

inline constexpr std::size_t kCheckpointsMax = 16;  // the most checkpoints of one sequence

// The slots and checkpoints of a sequence's record after an edit.
struct NewState {
  std::uint32_t state_slot = layout::kNoSlot;
  std::uint32_t logits_slot = layout::kNoSlot;
  layout::ListRoot checkpoints = kEmptyList;
};

// The state after the first cell_count cells of the record, with the checkpoints up to that state,
// which stay in the record's own list. Errors: kNeedsReplay (no state is kept after the first
// cell_count cells).
Result<NewState> StateAt(const MemoryStore& store, const layout::SequenceRecord& record,
                         std::uint32_t cell_count) KVD_REQUIRES(store.mutex);
// Returns the root of a list of checkpoints cut to its first `count` entries, which stay in place.
layout::ListRoot CutCheckpoints(const MemoryStore& store, const layout::ListRoot& root,
                                std::size_t count) KVD_REQUIRES(store.mutex);
// Sets store.checkpoints to the checkpoints of `source` up to cell_count, with one at cell_count if
// there is room for it. The checkpoints are trimmed to the share of `owner`, the owner of the
// sequence that gets them.
void CollectCheckpoints(MemoryStore& store, const layout::SequenceRecord& source,
                        std::uint32_t cell_count, std::uint32_t state_slot, OwnerId owner)
    KVD_REQUIRES(store.mutex);
// Removes checkpoints from store.checkpoints, the least useful first, until the rest is within the
// owner's share.
void TrimCheckpoints(MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex);
// How many more checkpoint slots the limits of the owner and of the memory allow.
std::size_t CountCheckpointRoom(const MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex);
// Whether the owner's limit allows it to keep the row of logits in `slot`; kNoSlot: to keep one
// more row.
bool MayKeepLogits(const MemoryStore& store, std::uint32_t slot, OwnerId owner)
    KVD_REQUIRES(store.mutex);

// Makes `wanted` state slots free by giving up checkpoints, the least useful checkpoints of all
// sequences first. Errors: kNoSpace; no checkpoint is given up if that would not be enough.
Status FindStates(MemoryStore& store, std::uint32_t wanted) KVD_REQUIRES(store.mutex);
// The number of state slots that only checkpoints refer to and that are not pinned.
std::uint32_t CountSpareStates(const MemoryStore& store) KVD_REQUIRES(store.mutex);
// Makes a row of logits free for a sequence of the owner, and returns whether one is free. If no
// row is free, the next sequence in turn that has a row loses it. If the owner has reached its
// share of rows, one of the owner's sequences loses its row.
bool FindLogits(MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex);

}  // namespace kvd
