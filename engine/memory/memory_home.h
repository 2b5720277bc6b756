// Opens a daemon's memory: attaches to the state that an earlier process left in the daemon's
// directory, changes its size if this process wants another one, or creates a new memory and
// reports why the earlier state was not used.
//
// Three things can happen to an earlier state (docs/decisions/0039):
// * It is used, with all held sequences.
// * It is damaged, of another layout, boot or processor, or the caller has said `starts_cold`: it
//   is kept aside where there is room, and the memory begins empty.
// * The caller's options would discard held sequences: OpenMemory fails, and nothing has changed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"
#include "engine/memory/state_files.h"
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
  // True: an option has chosen the form, so another form is a conflict of options and not another
  // processor.
  bool has_chosen_form = false;
  std::string model_name{};  // stored for people
  bool starts_cold = false;  // an earlier state is not used
  // True: the geometry's sequence_capacity is a default, which may be raised to that of the earlier
  // state if its sequences need the records.
  bool may_raise_capacity = false;
  // Whether the client of a stored session may still return. The sequences of other sessions are
  // released when the size changes. Empty: every client may.
  std::function<bool(const SessionEntry&)> may_return{};
  FileProbe probe{};  // for tests
};

// How a memory was opened.
struct MemoryStart {
  bool is_warm = false;
  std::string why_cold;            // empty: there was no earlier memory
  std::uint32_t sequences = 0;     // number of sequences found and served, including snapshots
  std::uint32_t snapshots = 0;     // how many of these are snapshots
  std::vector<LostSequence> lost;  // damaged sequences that were dropped
  bool cells_checked = false;      // K, V and states in the pool were checked (--verify-pool)
  std::uint64_t resized_from = 0;  // cells of the earlier memory, if its size has changed
  std::uint32_t evicted = 0;       // retained sequences that a change of the size has evicted
  std::string kept_aside;          // the file under which the earlier meta stays; empty: none
  std::uint64_t aside_bytes = 0;   // of all files that are kept aside
  std::vector<std::string> removed_asides;  // files that are no longer kept aside

  void CountServed(const Memory& memory);
};

struct OpenedMemory {
  std::unique_ptr<Memory> memory;
  MemoryStart start;
};

// Errors: kConflict (the options would discard held sequences, with the numbers), kNoSpace, kIo.
// The earlier state is unchanged then, except that retained sequences may be evicted.
Result<OpenedMemory> OpenMemory(const MemoryHome& home, const MemoryGeometry& geometry,
                                const FingerprintBytes& model_fingerprint,
                                const CellLimits& limits);

}  // namespace kvd
