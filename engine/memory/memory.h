// Memory: all cached state of one model, as sequences of immutable cells. The verbs are the same for
// every kind of model: one record and one commit hold all that a sequence consists of, which is its cells
// in each block group (all tokens; those in reach of a window; an encoded text), its recurrent state,
// checkpoints and last logits. So an operation on a hybrid model changes all of it or nothing.
//
// One object per daemon, over two mappings (`pool` and `meta`, see shm/segment_layout.h). It is the
// only writer of both. It is put together from parts that share one MemoryStore; each part's header says
// what it does. Threads: every method may be called from any thread, unless its part says otherwise; a
// mutex inside is held for microseconds and never while a kernel runs.
//
// Invariants: a committed cell is never written again; every change of what is committed is one
// Transaction (all of it or nothing); a method that returns an error has changed nothing, but kNoSpace
// may have evicted retained sequences; what is derived (reference counts, free lists, fill levels) can
// be rebuilt from `meta` alone at any moment between two calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/memory/cell_rewrites.h"
#include "engine/memory/defragmenter.h"
#include "engine/memory/holds.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/prefix_cache.h"
#include "engine/memory/rebuild.h"
#include "engine/memory/recurrent_states.h"
#include "engine/memory/restores.h"
#include "engine/memory/sequences.h"
#include "engine/memory/sessions.h"
#include "engine/memory/snapshots.h"
#include "engine/memory/steps.h"

namespace kvd {

// A sequence that was damaged when its memory was attached to.
struct LostSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::string snapshot;  // its name, if it was published
  std::string reason;
};

class Memory {
 public:
  // Takes over segments that were just created.
  static std::unique_ptr<Memory> Create(MemorySegments segments);
  // Takes over segments that an earlier process left: their sequences are all there as committed, but
  // for those that are damaged, which are freed and told in `lost`. Errors: kCorrupt (the commit record
  // or the tables), kNoSpace, kIo.
  static Result<std::unique_ptr<Memory>> Attach(MemorySegments segments, const CellLimits& limits,
                                                std::vector<LostSequence>* lost);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Sequences& sequences() { return sequences_; }
  const Sequences& sequences() const { return sequences_; }
  Snapshots& snapshots() { return snapshots_; }
  const Snapshots& snapshots() const { return snapshots_; }
  Sessions& sessions() { return sessions_; }
  const Sessions& sessions() const { return sessions_; }
  PrefixCache& prefixes() { return prefixes_; }
  const PrefixCache& prefixes() const { return prefixes_; }
  RecurrentStates& states() { return states_; }
  Steps& steps() { return steps_; }
  CellRewrites& rewrites() { return rewrites_; }
  Defragmenter& defragmenter() { return defragmenter_; }
  Holds& holds() { return holds_; }
  Restores& restores() { return restores_; }

  // Checked from the next commit on. Null: no limits. The rules outlive the memory.
  void SetShareRules(const ShareRules* rules);
  PoolUsage Usage() const;
  // Another number after every commit.
  std::uint64_t commit_number() const;
  const MemoryGeometry& geometry() const { return store_.segments.geometry; }

  // ---- the bytes
  // Start of a block of a group in the pool; [layer][K|V][kv head][cell][dim]. REQUIRES: the group
  // has layers.
  std::byte* BlockBytes(std::uint32_t group, BlockId block);
  // Makes the bytes of a block safe to write that a restore with grows_later has reserved. Errors:
  // kNoSpace, kIo.
  Status GrowBlock(std::uint32_t group, BlockId block);
  // The records of a block of a group: kBlockCells of them. For blocks that a step's extents refer
  // to, during the step.
  const layout::CellRecord* BlockCells(std::uint32_t group, BlockId block) const;
  // A state slot in the pool: MemoryOptions::state_bytes of f32.
  std::byte* StateBytes(std::uint32_t slot);
  // A row of logits in the pool: MemoryOptions::logits_bytes of f32.
  std::byte* LogitsBytes(std::uint32_t slot);

  // ---- for tests and checks. REQUIRES: no other thread is in a verb. That is why they take no mutex
  // and the analysis leaves them out.
  const DerivedTables& derived() const KVD_NO_THREAD_SAFETY_ANALYSIS { return store_.tables; }
  const PrefixIndex& prefix_index() const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return store_.prefix.index;
  }
  std::span<const std::byte> meta_bytes() const { return store_.meta.bytes(); }
  bool is_free_block(std::uint32_t group, std::uint32_t block) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return store_.allocators[group].is_free(block);
  }
  bool is_free_state(std::uint32_t slot) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return store_.states.is_free(slot);
  }
  bool is_free_logits(std::uint32_t slot) const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return store_.logits.is_free(slot);
  }
  // Then retained sequences stay, and what has no room is refused.
  void DisableEvictionForTest() KVD_NO_THREAD_SAFETY_ANALYSIS { store_.prefix.evicts = false; }
  CommitLog& commit_log_for_test() KVD_NO_THREAD_SAFETY_ANALYSIS { return store_.log; }
  MemoryLooks TakeLooks() const KVD_NO_THREAD_SAFETY_ANALYSIS {
    return std::exchange(store_.looks, {});
  }

 private:
  explicit Memory(MemorySegments segments) : store_(std::move(segments)) {}
  Status Adopt(Recovery recovery, std::vector<LostSequence>* lost);

  MemoryStore store_;
  Sequences sequences_{store_};
  Snapshots snapshots_{store_};
  Sessions sessions_{store_};
  PrefixCache prefixes_{store_};
  RecurrentStates states_{store_};
  Steps steps_{store_};
  CellRewrites rewrites_{store_};
  Defragmenter defragmenter_{store_};
  Holds holds_{store_};
  Restores restores_{store_};
};

}  // namespace kvd
