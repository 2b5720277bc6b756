// What a memory derives from its records so that prompts find their beginnings: the index of tokens, the
// order in which retained sequences are evicted, and what was evicted lately. Guarded by the store's
// mutex.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory/evicted_prefixes.h"
#include "engine/memory/eviction_order.h"
#include "engine/memory/prefix_index.h"
#include "shm/prefix_reuse.h"

namespace kvd {

struct PrefixCounters {
  std::array<std::uint64_t, kPrefixOrigins> tokens_reused = {};  // by PrefixOrigin
  std::uint64_t evictions = 0;                                   // sequences
  std::uint64_t tokens_evicted = 0;                              // that nothing else held
};

struct PrefixTables {
  explicit PrefixTables(std::uint32_t sequence_capacity)
      : index(sequence_capacity), retained(sequence_capacity), last_uses(sequence_capacity) {}

  PrefixIndex index;
  EvictionOrder retained;                // unpinned ones
  std::vector<std::uint64_t> last_uses;  // by sequence: use number, 0: before this process
  std::uint64_t use_number = 0;
  EvictedPrefixes evicted;
  PrefixCounters counters;
  bool evicts = true;
};

}  // namespace kvd
