// Records of new sequences: forks of another one's first cells, or of nothing.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/memory_info.h"
#include "engine/memory/state_slots.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct NewForks {
  std::uint32_t source = layout::kNoSlot;  // index of its record; kNoSlot: new ones are empty
  SequenceOwner owner;
  std::uint32_t flags = layout::kSequenceLive;
  std::uint32_t cell_count = 0;
};

// Forks whose arguments are found to be right; what is left to refuse is room.
struct ForkPlan {
  std::uint32_t source = layout::kNoSlot;
  NewState state;
  layout::SequenceRecord record;  // of each fork, without lists
};

// Errors: kNeedsReplay, kWindowLost.
Status PlanForks(const MemoryStore& store, const NewForks& forks, ForkPlan* plan)
    KVD_REQUIRES(store.mutex);
// Puts that many new sequences; `handles` gets them. Lists are allocated. Errors: kNoSpace (sequences,
// lists).
Status PutForks(MemoryStore& store, Transaction& transaction, ForkPlan& plan,
                std::span<SequenceHandle> handles) KVD_REQUIRES(store.mutex);

}  // namespace kvd
