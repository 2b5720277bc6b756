// Chooses which entries of a prompt cache are removed to make room for a new entry.
//
// Each owner has a share of the cache's bytes and entries. An owner at its limit loses its own
// entries, least recently used first. Entries of the main owner within its share are never removed
// for other owners.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/memory/owner.h"

namespace kvd {

struct PromptFile {
  std::string name;
  std::optional<OwnerId> owner;  // unset for files of older versions
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  // time of the last use, in nanoseconds since the epoch
};

struct PromptUse {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

// The limits of a cache.
struct PromptLimits {
  PromptUse all;                                   // of all owners together
  std::function<PromptUse(OwnerId)> part_of = {};  // limit of each owner; empty: `all`
  // The daemon's own uid. Entries without an owner count for this owner.
  OwnerId main_owner{};
};

// Calls `remove` for entries until a new entry of `bytes` bytes keeps within the limits. An entry
// for which `remove` returns false stays in the cache and still counts. First, owners above their
// limits lose their excess entries; then, while the total is too large, the owner with the most
// bytes loses its least recently used entry. Error: kNoSpace, with the numbers: the entry is larger
// than its owner's limit, or only entries of the main owner could be removed.
Status MakePromptRoom(const std::vector<PromptFile>& files, const PromptLimits& limits,
                      OwnerId writer, std::uint64_t bytes,
                      const std::function<bool(const std::string&)>& remove);

}  // namespace kvd
