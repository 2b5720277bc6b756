// Lists in the arena, written where nothing committed refers to them. A transaction uses these and takes
// its lists back if it is not committed; a defragmentation writes its lists before its transactions.
#pragma once

#include <cstdint>
#include <span>

#include "engine/memory/extents.h"
#include "engine/memory/memory_store.h"
#include "shm/error.h"

namespace kvd {

// Errors of these: kNoSpace. The first one's list has no sum yet.
Result<layout::ListRoot> AllocateList(MemoryStore& store, std::uint32_t entry_count)
    KVD_REQUIRES(store.mutex);
Result<layout::ListRoot> WriteList(MemoryStore& store, std::span<const Piece> pieces,
                                   std::uint32_t first_cell) KVD_REQUIRES(store.mutex);
// An empty root is nothing to free.
void FreeList(MemoryStore& store, const layout::ListRoot& root) KVD_REQUIRES(store.mutex);

}  // namespace kvd
