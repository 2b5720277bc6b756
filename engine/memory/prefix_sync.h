// Keeps the prefix index and the order of eviction equal to the records. Every commit calls these
// functions; besides, NoteUse is called where a sequence is used.
#pragma once

#include <cstdint>

#include "engine/memory/memory_store.h"
#include "engine/memory/prefix_index.h"

namespace kvd {

PrefixSpace PrivateSpace(OwnerId owner, std::uint64_t namespace_salt);
PrefixSpace PublishedSpace(OwnerId owner, bool is_public);

// The index says what the record of the sequence says. It reads no more tokens than have become
// pristine since the last call. `alike`: a sequence whose first tokens a new one begins with, or kNoSlot.
void SyncPrefix(MemoryStore& store, std::uint32_t index, std::uint32_t alike = layout::kNoSlot)
    KVD_REQUIRES(store.mutex);
// Of a sequence that was just published.
void IndexPublished(MemoryStore& store, std::uint32_t index, bool is_public)
    KVD_REQUIRES(store.mutex);
// All of it anew, from `meta`.
void RebuildPrefixes(MemoryStore& store) KVD_REQUIRES(store.mutex);

// After a change of flags: retained, unpinned sequences are in the order of eviction.
void NoteRetained(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);
// Puts a retained, unpinned sequence to its place in the order.
void PutInOrder(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);
// Somebody has taken cells of the sequence.
void NoteUse(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);

}  // namespace kvd
