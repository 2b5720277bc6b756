// Slots of recurrent state and rows of logits: which one a cut or a fork gets, and which are given up
// when room is needed.
//
// A committed slot is as immutable as a cell. So keeping a checkpoint, forking and going back to a
// checkpoint write references and nothing else. Checkpoints and rows of logits are a cache: they
// are given up when room is needed, each by a commit of its own. So what gives up comes before a
// transaction is begun.
#pragma once

#include <cstdint>

#include "engine/memory/memory_store.h"
#include "shm/error.h"

namespace kvd {

inline constexpr std::size_t kCheckpointsMax = 16;  // of one sequence

// The state half of an edited sequence.
struct NewState {
  std::uint32_t state_slot = layout::kNoSlot;
  std::uint32_t logits_slot = layout::kNoSlot;
  layout::ListRoot checkpoints = kEmptyList;
};

// The state behind the first cell_count cells of the record, as far as it is at hand; checkpoints:
// those of these cells, in the record's own list. Errors: kNeedsReplay.
Result<NewState> StateAt(const MemoryStore& store, const layout::SequenceRecord& record,
                         std::uint32_t cell_count) KVD_REQUIRES(store.mutex);
// The first `count` entries of a list of checkpoints, in their place.
layout::ListRoot CutCheckpoints(const MemoryStore& store, const layout::ListRoot& root,
                                std::size_t count) KVD_REQUIRES(store.mutex);
// store.checkpoints = those of `source` up to cell_count, and one there if there is room for it; for a
// sequence of that owner, which is within its share of them.
void CollectCheckpoints(MemoryStore& store, const layout::SequenceRecord& source,
                        std::uint32_t cell_count, std::uint32_t state_slot, OwnerId owner)
    KVD_REQUIRES(store.mutex);
// Erases of store.checkpoints what does not fit the owner's share of them, the least useful first.
void TrimCheckpoints(MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex);
// How many more slots of checkpoints there may be, of that owner and of all.
std::size_t CountCheckpointRoom(const MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex);
// Whether that owner may refer to the row of logits, or to one more (kNoSlot).
bool MayKeepLogits(const MemoryStore& store, std::uint32_t slot, OwnerId owner)
    KVD_REQUIRES(store.mutex);

// Makes sure of `wanted` free state slots: gives up checkpoints, the least useful ones over all
// sequences first. Errors: kNoSpace, with nothing given up.
Status FindStates(MemoryStore& store, std::uint32_t wanted) KVD_REQUIRES(store.mutex);
// State slots that checkpoints alone hold and nobody reads.
std::uint32_t CountSpareStates(const MemoryStore& store) KVD_REQUIRES(store.mutex);
// Whether a row of logits for a sequence of that owner is free; if not, the next sequence in turn that
// has one loses it: one of the owner's own, if that has its share of them.
bool FindLogits(MemoryStore& store, OwnerId owner) KVD_REQUIRES(store.mutex);

}  // namespace kvd
