// PrefixTables: state derived from a memory's records for the prefix cache: the index of tokens,
// the order in which retained sequences are evicted, and recently evicted prefixes. The store's
// mutex protects PrefixTables.
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
  std::uint64_t evictions = 0;                                   // number of evicted sequences
  std::uint64_t tokens_evicted = 0;  // evicted tokens that no other sequence held
};

struct PrefixTables {
  explicit PrefixTables(std::uint32_t sequence_capacity)
      : index(sequence_capacity), retained(sequence_capacity), last_uses(sequence_capacity) {}

  PrefixIndex index;
  EvictionOrder retained;  // the retained, unpinned sequences
  // By sequence: number of the last use; 0: not used by this process.
  std::vector<std::uint64_t> last_uses;
  std::uint64_t use_number = 0;
  EvictedPrefixes evicted;
  PrefixCounters counters;
  bool evicts = true;
};

}  // namespace kvd
