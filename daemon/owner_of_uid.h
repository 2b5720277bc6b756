// Owners, as the engine counts them, are uids here.
#pragma once

#include <cstdint>

#include "engine/memory/owner.h"

namespace kvd {

constexpr OwnerId OwnerOf(std::uint32_t uid) { return OwnerId{uid}; }

// REQUIRES: an owner that OwnerOf has made.
constexpr std::uint32_t UidOf(OwnerId owner) { return static_cast<std::uint32_t>(owner); }

}  // namespace kvd
