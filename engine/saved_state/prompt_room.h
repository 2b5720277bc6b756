// Which entries of a prompt cache go to make room for a new one.
//
// Each owner has its part of the cache's bytes and of its entries. It is a cache: an owner at its
// part gives up its own entries, those first that were not used for longest. What others write
// never takes entries of the main owner that are within its part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory/owner.h"
#include "shm/error.h"

namespace kvd {

struct PromptFile {
  std::string name;
  std::optional<OwnerId> owner;  // not known of those that older versions wrote
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  // since the epoch
};

struct PromptUse {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

// The limits of a cache.
struct PromptLimits {
  PromptUse all;                                   // of all owners together
  std::function<PromptUse(OwnerId)> part_of = {};  // of each; empty: as of all
  // The daemon's own. Entries without an owner count for it.
  OwnerId main_owner{};
};

// Calls `remove` for entries until one more of so many bytes keeps within the limits. One that
// `remove` returns false for stays, and counts. Owners that hold more than their parts give up what
// is too much; then, while all together are too much, the one that holds most of the bytes gives up
// its oldest. Error: kNoSpace, with the numbers: the entry is larger than its owner's part, or only
// the main owner's could go.
Status MakePromptRoom(const std::vector<PromptFile>& files, const PromptLimits& limits,
                      OwnerId writer, std::uint64_t bytes,
                      const std::function<bool(const std::string&)>& remove);

}  // namespace kvd
