// What a memory tells about its sequences, snapshots and its use: plain values, copied under its lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory/owner.h"
#include "shm/ids.h"
#include "shm/segment_layout.h"

namespace kvd {

struct SequenceOwner {
  OwnerId id{};
  SessionId session = SessionId::kNone;
  std::uint64_t namespace_salt = 0;
};

struct SequenceInfo {
  SequenceHandle handle = SequenceHandle::kNone;
  SequenceOwner owner;
  std::uint32_t flags = 0;  // layout::SequenceFlags
  bool is_public = false;   // of a snapshot that every owner may see
  std::uint32_t cell_count = 0;
  std::uint32_t pristine_cells = 0;
  std::uint32_t extent_count = 0;  // of group 0
  std::uint32_t cross_cells = 0;   // of the encoded text; 0: none is encoded
  std::uint32_t checkpoint_count = 0;
  Pos first_pos;  // of the first cell; 0 when empty
  Pos next_pos;
  std::uint64_t created_unix_ms = 0;
  std::uint64_t edit_number = 0;
  // The last request that computed tokens of it, and where they begin; nullopt: its cells were
  // edited since.
  SessionId request_session = SessionId::kNone;
  RequestId request{};
  std::optional<std::uint32_t> request_first_cell;
  layout::SamplerRecord sampler{};  // of its last drawn tokens; flags 0: none is kept
};

// layout::EditRecord
struct SequenceEdit {
  std::uint64_t unix_ms = 0;
  PosRange range;  // of the cells, before the edit
  std::int32_t delta = 0;
  layout::EditKind kind = layout::kEditRemoved;
  std::uint16_t request_kind = 0;  // RequestTag::kind; 0: on behalf of no request
  friend bool operator==(const SequenceEdit&, const SequenceEdit&) = default;
};

struct SequenceHistory {
  SequenceInfo sequence;
  SequenceHandle parent = SequenceHandle::kNone;  // may be gone
  std::uint32_t parent_cells = 0;
  std::uint32_t edit_count = 0;     // so far
  std::vector<SequenceEdit> edits;  // the last ones, the oldest first
};

// What takes a look at every extent of a sequence: 10 to 20 us for 32,768 cells.
struct SequenceUse {
  std::uint32_t shared_cells = 0;  // also referred to by another sequence
  std::uint32_t delta_count = 0;   // distinct deltas
  std::int64_t delta_max = 0;      // the largest |delta|
};

struct SnapshotInfo {
  std::string name;
  SequenceHandle sequence = SequenceHandle::kNone;
  OwnerId owner{};
  bool is_public = false;
  std::uint64_t published_unix_ms = 0;
};

// Blocks of one group, of kBlockCells cells each.
struct GroupUsage {
  std::uint32_t total_blocks = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t reclaimable_blocks = 0;  // held by retained, unpinned sequences alone
  std::uint64_t live_cells = 0;          // cells some sequence refers to, each counted once
};

struct PoolUsage {  // blocks and cells: of group 0
  std::uint32_t total_blocks = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t reclaimable_blocks = 0;  // held by retained, unpinned sequences alone
  std::uint32_t live_sequences = 0;
  std::uint32_t sequence_capacity = 0;
  std::uint64_t live_cells = 0;      // cells some sequence refers to, each counted once
  std::uint64_t reserved_bytes = 0;  // of the pool file that the system has reserved for us
  std::uint64_t list_units_free = 0;
  // Recurrent state; all 0 for models without.
  std::uint32_t state_slots = 0;
  std::uint32_t free_state_slots = 0;
  std::uint32_t checkpoint_slots = 0;  // held by checkpoints
  std::uint32_t logits_rows = 0;
  std::uint32_t free_logits_rows = 0;
  std::uint32_t reclaimable_state_slots = 0;  // held by retained, unpinned sequences alone
  std::uint32_t retained_sequences = 0;       // unpinned ones
  // Every group, group 0 once more.
  std::uint32_t group_count = 0;
  std::array<GroupUsage, layout::kGroupsMax> groups = {};
};

}  // namespace kvd
