// Records of new sequences: forks of another one's first cells, or of nothing.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/memory_info.h"
#include "engine/memory/transaction.h"

namespace kvd {

struct NewForks {
  std::uint32_t source = layout::kNoSlot;  // index of its record; kNoSlot: new ones are empty
  SequenceOwner owner;
  std::uint32_t flags = layout::kSequenceLive;
  std::uint32_t cell_count = 0;
};

// Puts that many new sequences; `handles` gets them. Lists are allocated. Errors: kNeedsReplay,
// kWindowLost, kNoSpace (sequences, lists).
Status PutForks(MemoryStore& store, Transaction& transaction, const NewForks& forks,
                std::span<SequenceHandle> handles) KVD_REQUIRES(store.mutex);
// Whether the source's first cells can be forked, but for room. Errors: kNeedsReplay, kWindowLost.
Status CheckForks(const MemoryStore& store, const NewForks& forks) KVD_REQUIRES(store.mutex);

}  // namespace kvd
