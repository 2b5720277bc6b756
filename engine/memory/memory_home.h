// Where a daemon's memory comes from: the segments that an earlier process left in its directory,
// or fresh ones with the reason why.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"
#include "engine/numeric_form.h"
#include "shm/error.h"

namespace kvd {

struct MemoryHome {
  int directory = -1;        // private, locked by the caller; -1: anonymous memory
  bool checks_boot = false;  // the directory outlives a reboot
  std::uint64_t slab_bytes = kSlabBytes;
  // What computes the cells from now on. Those that are there must have this form, unless it is
  // kFree: then all have none from now on.
  NumericForm numeric_form = NumericForm::kFree;
};

// How a memory came to be.
struct MemoryStart {
  bool is_warm = false;
  std::string why_cold;            // empty: nothing was there
  std::uint32_t sequences = 0;     // found and served, snapshots' included
  std::uint32_t snapshots = 0;     // of those
  std::vector<LostSequence> lost;  // found and dropped
  bool cells_checked = false;      // K, V and states were looked at too

  void CountServed(const Memory& memory);
};

struct OpenedMemory {
  std::unique_ptr<Memory> memory;
  MemoryStart start;
};

// Attaches to what is there if it can be used; else sets its `meta` aside as "meta.bad" and creates
// both files anew. Errors: only those of creating.
Result<OpenedMemory> OpenMemory(const MemoryHome& home, const MemoryGeometry& geometry,
                                const FingerprintBytes& model_fingerprint,
                                const CellLimits& limits);

}  // namespace kvd
