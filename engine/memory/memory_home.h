// Opens a daemon's memory: attaches to the segments that an earlier process left in the daemon's
// directory, or creates new segments and reports why the earlier segments were not used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"
#include "engine/model/numeric_form.h"

namespace kvd {

struct MemoryHome {
  int directory = -1;  // a private directory that the caller has locked; -1: anonymous memory
  // True: the directory survives a reboot, so a meta that was written before the last boot is
  // rejected.
  bool checks_boot = false;
  std::uint64_t slab_bytes = kSlabBytes;
  // The form in which this process computes cells. A memory whose cells have another numeric form
  // is rejected. kFree: a memory of any form is accepted and marked as kFree.
  NumericForm numeric_form = NumericForm::kFree;
};

// How a memory was opened.
struct MemoryStart {
  bool is_warm = false;
  std::string why_cold;            // empty: there was no earlier memory
  std::uint32_t sequences = 0;     // number of sequences found and served, including snapshots
  std::uint32_t snapshots = 0;     // how many of these are snapshots
  std::vector<LostSequence> lost;  // damaged sequences that were dropped
  bool cells_checked = false;      // K, V and states in the pool were checked (--verify-pool)

  void CountServed(const Memory& memory);
};

struct OpenedMemory {
  std::unique_ptr<Memory> memory;
  MemoryStart start;
};

// Attaches to the existing segments if they are usable. If the existing segments are not usable,
// renames their `meta` to "meta.bad" and creates both files. Errors: those of creating.
Result<OpenedMemory> OpenMemory(const MemoryHome& home, const MemoryGeometry& geometry,
                                const FingerprintBytes& model_fingerprint,
                                const CellLimits& limits);

}  // namespace kvd
