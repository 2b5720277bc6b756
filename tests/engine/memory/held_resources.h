// What an owner holds of each resource of a memory, counted naively from the bytes of its `meta`:
// the truth that the memory's own counts are compared with.
#pragma once

#include <cstdint>
#include <string>

#include "engine/memory/meta_segment.h"
#include "engine/memory/owner.h"
#include "engine/memory/shares.h"

namespace kvd::memory_model {

OwnerUse HeldBy(const ConstMetaView& meta, OwnerId owner);

// "blocks of group 1: 12 held of 10" for the first resource of which more is held; "": none.
std::string Excess(const OwnerUse& held, const OwnerLimits& limits);

}  // namespace kvd::memory_model
