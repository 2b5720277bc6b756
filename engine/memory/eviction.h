// Eviction: retained sequences are dropped when their room is needed, those that are worth least first
// (EvictionOrder); pinned ones never are.
//
// Each eviction is a commit of its own, which belongs to no request. So verbs make room when everything
// else is checked, before they begin their transaction; one that is refused for want of room may have
// evicted, and has changed nothing else.
#pragma once

#include <array>
#include <cstdint>

#include "engine/memory/memory_store.h"

namespace kvd {

// What is to be free.
struct Need {
  // Blocks that are promised to others are left to those; `promised` are promised to who needs these.
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};
  std::array<std::uint64_t, layout::kGroupsMax> promised = {};
  std::uint32_t states = 0;
  std::uint32_t sequences = 0;
  std::uint32_t list_units = 0;
};

inline constexpr std::array<std::uint32_t, 2> kNoneKept = {layout::kNoSlot, layout::kNoSlot};

// Evicts until the need is met, none of `kept`; nothing if it cannot be met. REQUIRES: no transaction
// is open and no part of a step being reserved.
void MakeRoom(MemoryStore& store, const Need& need, std::array<std::uint32_t, 2> kept = kNoneKept)
    KVD_REQUIRES(store.mutex);
// A part of the list arena is kept free, so that lists can be written anew.
void MakeRoomForLists(MemoryStore& store, std::array<std::uint32_t, 2> kept = kNoneKept)
    KVD_REQUIRES(store.mutex);
// Drops a retained sequence. False: it could not be dropped.
bool Evict(MemoryStore& store, std::uint32_t index) KVD_REQUIRES(store.mutex);

}  // namespace kvd
