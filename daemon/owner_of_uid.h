// Converts between uids and the engine's owners: in the daemon, an owner is a uid.
#pragma once

#include <cstdint>

#include "engine/memory/owner.h"

namespace kvd {

constexpr OwnerId OwnerOf(std::uint32_t uid) { return OwnerId{uid}; }

// REQUIRES: OwnerOf returned `owner`.
constexpr std::uint32_t UidOf(OwnerId owner) { return static_cast<std::uint32_t>(owner); }

}  // namespace kvd
