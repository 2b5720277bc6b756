// Keeps the prefix index and the eviction order consistent with the records. Every commit calls the
// functions of this header; NoteUse is also called when cells of a sequence are reused.
#pragma once

#include <cstdint>

#include "engine/memory/memory_store.h"
#include "engine/memory/prefix_index.h"

namespace kvd {

PrefixSpace PrivateSpace(OwnerId owner, std::uint64_t namespace_salt);
PrefixSpace PublishedSpace(OwnerId owner, bool is_public);

// Updates the sequence's entry in the index from its record. SyncPrefix reads only the tokens that
// have become pristine since the last call. `alike`: for a new sequence, another sequence that
// begins with the same tokens; kNoSlot: none.
void SyncPrefix(MemoryStore& store, std::uint32_t index, std::uint32_t alike = layout::kNoSlot)
    KVD_REQUIRES(store.mutex);
// Moves a sequence that was just published to the namespace of its snapshot.
void IndexPublished(MemoryStore& store, std::uint32_t index, bool is_public)
    KVD_REQUIRES(store.mutex);
// Rebuilds the whole index and the eviction order from `meta`.
void RebuildPrefixes(MemoryStore& store) KVD_REQUIRES(store.mutex);

// Called after a change of flags: a retained, unpinned sequence is put into the eviction order; any
// other sequence is removed from the order.
void NoteRetained(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);
// Updates the place of a retained, unpinned sequence in the eviction order.
void PutInOrder(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);
// Records that cells of the sequence were reused.
void NoteUse(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);

}  // namespace kvd
