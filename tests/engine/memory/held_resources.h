// Counts the resources that an owner holds in a memory naively from the bytes of `meta`. Tests
// compare the counts that the memory maintains with these naive counts.
#pragma once

#include <cstdint>
#include <string>

#include "engine/memory/meta_segment.h"
#include "engine/memory/owner.h"
#include "engine/memory/shares.h"

namespace kvd::memory_model {

OwnerUse HeldBy(const ConstMetaView& meta, OwnerId owner);

// Describes the first resource of which `held` exceeds `limits`, for example "blocks of group 1: 12
// held of 10". Returns "" if `held` exceeds none of the limits.
std::string Excess(const OwnerUse& held, const OwnerLimits& limits);

}  // namespace kvd::memory_model
