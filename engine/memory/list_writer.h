// Writes lists into the list arena, to places that no committed record refers to. A transaction
// calls the functions of this header and frees its lists if it is not committed; a defragmentation
// writes its lists before it begins the transactions that commit them.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "engine/memory/extents.h"
#include "engine/memory/memory_store.h"

namespace kvd {

// Errors of AllocateList and WriteList: kNoSpace. The list that AllocateList returns has no
// checksum yet.
Result<layout::ListRoot> AllocateList(MemoryStore& store, std::uint32_t entry_count)
    KVD_REQUIRES(store.mutex);
Result<layout::ListRoot> WriteList(MemoryStore& store, std::span<const BlockRange> ranges,
                                   std::uint32_t first_cell) KVD_REQUIRES(store.mutex);
// Frees the list's units; FreeList has no effect on an empty list.
void FreeList(MemoryStore& store, const layout::ListRoot& root) KVD_REQUIRES(store.mutex);

}  // namespace kvd
