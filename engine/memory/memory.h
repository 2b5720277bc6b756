// Memory: all cached state of one model, as sequences of immutable cells.
//
// A Memory has the same verbs for every kind of model. One record and one commit cover all parts of
// a sequence: its cells in each block group (all tokens, the tokens within a window, an encoded
// text), its recurrent state, its checkpoints and its last row of logits. An operation on a
// sequence of a hybrid model therefore changes all parts of the sequence or none.
//
// A daemon has one Memory, over two mappings (`pool` and `meta`, see shm/segment_layout.h), and the
// Memory is the only writer of both mappings. A Memory consists of parts that share one
// MemoryStore; the header of each part describes the part. Threads: any, unless the part's header
// says otherwise. The Memory's mutex is held for microseconds and never while a kernel runs.
//
// Invariants:
// * A committed cell is never written again.
// * Every change of committed state is one Transaction: all of it takes effect or none.
// * A method that returns an error has changed nothing, except that kNoSpace may have evicted
//   retained sequences.
// * Derived state (reference counts, free lists, fill levels) can be rebuilt from `meta` alone at
//   any moment between two calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/memory/block_packer.h"
#include "engine/memory/cell_rewrites.h"
#include "engine/memory/holds_and_restores.h"
#include "engine/memory/memory_info.h"
#include "engine/memory/memory_store.h"
#include "engine/memory/prefix_cache.h"
#include "engine/memory/rebuild.h"
#include "engine/memory/recurrent_states.h"
#include "engine/memory/sequences.h"
#include "engine/memory/sessions.h"
#include "engine/memory/snapshots.h"
#include "engine/memory/steps.h"

namespace kvd {

// A sequence that was found damaged when its memory was attached.
struct LostSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::string snapshot;  // its name, if it was published
  std::string reason;
};

class Memory {
 public:
  // Takes ownership of newly created segments.
  static std::unique_ptr<Memory> Create(MemorySegments segments);
  // Takes ownership of segments that an earlier process left. All committed sequences of the
  // segments exist afterwards, except for damaged ones, which are freed and reported in `lost`.
  // Errors: kCorrupt (the commit record or the tables), kNoSpace, kIo.
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
  BlockPacker& block_packer() { return block_packer_; }
  Holds& holds() { return holds_; }
  Restores& restores() { return restores_; }

  // Sets the rules that every later commit checks; null: no limits. REQUIRES: the rules outlive the
  // last commit.
  void SetShareRules(const ShareRules* rules);
  PoolUsage Usage() const;
  // A number that every commit changes.
  std::uint64_t commit_number() const;
  const MemoryGeometry& geometry() const { return store_.segments.geometry; }

  // ---- the bytes
  // The start of a block of a group in the pool; [layer][K|V][kv head][cell][dim]. REQUIRES: the
  // group has layers.
  std::byte* BlockBytes(std::uint32_t group, BlockId block);
  // Makes the bytes of a block safe to write; for blocks that a restore with grows_later has
  // reserved. Errors: kNoSpace, kIo.
  Status GrowBlock(std::uint32_t group, BlockId block);
  // The kBlockCells cell records of a block of a group. REQUIRES: a running step's extents refer to
  // the block.
  const layout::CellRecord* BlockCells(std::uint32_t group, BlockId block) const;
  // A state slot in the pool: MemoryOptions::state_bytes bytes of f32 values.
  std::byte* StateBytes(std::uint32_t slot);
  // A row of logits in the pool: MemoryOptions::logits_bytes bytes of f32 values.
  std::byte* LogitsBytes(std::uint32_t slot);

  // ---- a change of the memory's size (resize.h). REQUIRES: no other thread uses the memory.
  // Evicts the least useful retained sequence. Returns false if there is none.
  bool EvictLeast();
  // Takes a block or slot that no committed record refers to, and makes its bytes safe to write.
  // `part`: a part of PoolParts. Errors: kNoSpace, kIo.
  Status Claim(std::size_t part, std::uint32_t number);
  // The bytes of a block or slot, and how many there are; null: the blocks have no bytes.
  std::span<std::byte> ItemBytes(std::size_t part, std::uint32_t number);

  // ---- for tests and checks. REQUIRES: no other thread is in a verb. The functions for tests and
  // checks therefore take no mutex and are excluded from thread-safety analysis.
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
  // Disables eviction: retained sequences stay, and a request without room fails with kNoSpace.
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
  BlockPacker block_packer_{store_};
  Holds holds_{store_};
  Restores restores_{store_};
};

}  // namespace kvd
