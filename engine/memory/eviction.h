// Eviction: drops retained sequences when their blocks, slots, records or list units are needed,
// the least useful sequence first (EvictionOrder). Pinned sequences are never evicted.
//
// Each eviction is a separate commit that belongs to no request. A verb therefore makes room after
// all its other checks and before it begins its transaction. A verb that fails with kNoSpace may
// have evicted sequences and has changed nothing else.
#pragma once

#include <array>
#include <cstdint>

#include "engine/memory/memory_store.h"

namespace kvd {

// The numbers of blocks, slots, records and list units that a request needs to be free.
struct Need {
  // `promised`: the blocks that are promised to the requesting sequences. Blocks that are promised
  // to other sequences are not available to the request.
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
  std::array<std::uint64_t, layout::kGroupsMax> promised = {};
  std::uint32_t states = 0;
  std::uint32_t sequences = 0;
  std::uint32_t list_units = 0;
};

inline constexpr std::array<std::uint32_t, 2> kNoneKept = {layout::kNoSlot, layout::kNoSlot};

// Evicts sequences other than those in `kept` until the need is met; evicts no sequence if the need
// cannot be met. REQUIRES: no transaction is open, and no part of a step is being reserved.
void MakeRoom(MemoryStore& store, const Need& need, std::array<std::uint32_t, 2> kept = kNoneKept)
    KVD_REQUIRES(store.mutex);
// Whether evicting all retained sequences would meet the need; need.list_units is ignored.
bool CanBeMet(const MemoryStore& store, const Need& need) KVD_REQUIRES(store.mutex);
// Evicts sequences until 1/16 of the list arena is free, so that lists can be rewritten.
void MakeRoomForLists(MemoryStore& store, std::array<std::uint32_t, 2> kept = kNoneKept)
    KVD_REQUIRES(store.mutex);
// Drops a retained sequence. Returns false if the sequence could not be dropped.
bool Evict(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);

}  // namespace kvd
