// Creates the records of new sequences: forks of another sequence's first cells, or empty
// sequences.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/memory_info.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct NewForks {
  // Index of the source's record; kNoSlot: the new sequences are empty.
  std::uint32_t source = layout::kNoSlot;
  SequenceOwner owner;
  std::uint32_t flags = layout::kSequenceLive;
  std::uint32_t cell_count = 0;
};

// The checked arguments of PutForks. If the arguments come from PlanForks, PutForks can fail only
// with kNoSpace.
struct ForkPlan {
  std::uint32_t source = layout::kNoSlot;
  NewState state;
  layout::SequenceRecord record;  // the record of each fork, without its lists
};

// Checks the arguments and prepares `plan`. Errors: kNeedsReplay, kWindowLost.
Status PlanForks(const MemoryStore& store, const NewForks& forks, ForkPlan* plan)
    KVD_REQUIRES(store.mutex);
// Puts the records of handles.size() new sequences into the transaction, allocates their lists, and
// stores their handles in `handles`. Errors: kNoSpace (no free sequence records or list units).
Status PutForks(MemoryStore& store, Transaction& transaction, ForkPlan& plan,
                std::span<SequenceHandle> handles) KVD_REQUIRES(store.mutex);

}  // namespace kvd
