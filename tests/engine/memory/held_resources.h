// What an owner holds of each resource of a memory, counted naively from the bytes of its `meta`:
// the truth that the memory's own counts are compared with.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/memory/meta_segment.h"

namespace kvd::memory_model {

// Of the sequences that are not evictable. Each is charged for all that it refers to, whatever it
// shares with others.
struct HeldResources {
  std::uint64_t sequences = 0;
  std::array<std::uint64_t, layout::kGroupsMax> blocks = {};  // by block group
  std::uint64_t state_slots = 0;
  std::uint64_t checkpoint_slots = 0;
  std::uint64_t list_units = 0;
  std::uint64_t logits_rows = 0;
};

// Of the owner with that uid.
HeldResources HeldBy(const ConstMetaView& meta, std::uint32_t uid);

// "blocks of group 1: 12 held of 10" for the first resource of which more is held; "": none.
std::string Excess(const HeldResources& held, const HeldResources& share);

}  // namespace kvd::memory_model
