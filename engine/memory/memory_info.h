// Plain values that describe a memory's sequences, snapshots and usage, copied under the memory's
// lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/memory/owner.h"
#include "shm/segment_layout.h"

namespace kvd {

// How long a sequence stays, and whether other prompts may reuse its cells.
struct SequenceLife {
  std::uint64_t expires_unix_ms = 0;  // the time at which the sequence is dropped; 0: none
  bool is_ephemeral = false;          // layout::kSequenceEphemeral
  friend bool operator==(const SequenceLife&, const SequenceLife&) = default;
};

struct SequenceOwner {
  OwnerId id{};
  SessionId session = SessionId::kNone;
  std::uint64_t namespace_salt = 0;
  SequenceLife life{};
};

struct SequenceInfo {
  SequenceHandle handle = SequenceHandle::kNone;
  SequenceOwner owner;
  std::uint32_t flags = 0;  // layout::SequenceFlags
  bool is_public = false;   // a snapshot that every owner may see
  std::uint32_t cell_count = 0;
  std::uint32_t pristine_cells = 0;
  std::uint32_t extent_count = 0;  // in the list of group 0
  std::uint32_t cross_cells = 0;   // cells of the encoded text; 0: none is encoded
  std::uint32_t checkpoint_count = 0;
  Pos first_pos;  // position of the first cell; 0 when the sequence is empty
  Pos next_pos;
  std::uint64_t created_unix_ms = 0;
  std::uint64_t edit_number = 0;
  // The last request that computed tokens of the sequence, and the cell at which those tokens
  // begin; nullopt: the sequence's cells were edited after that request.
  SessionId request_session = SessionId::kNone;
  RequestId request{};
  std::optional<std::uint32_t> request_first_cell;
  // Number of tokens behind the cells that have given their cells back (Sequences::GiveBack).
  std::uint32_t given_count = 0;
  // State of the sampler after its last drawn token; flags 0: no state is kept.
  layout::SamplerRecord sampler{};
};

// Cells that a sequence could give back.
struct GivableCells {
  std::uint32_t first = 0;  // ordinal of the first of them
  std::uint32_t count = 0;
};

// One edit of a sequence: a copy of its layout::EditRecord.
struct SequenceEdit {
  std::uint64_t unix_ms = 0;
  PosRange range;  // positions of the edited cells before the edit
  std::int32_t delta = 0;
  layout::EditKind kind = layout::kEditRemoved;
  std::uint16_t request_kind = 0;  // RequestTag::kind; 0: not made for a request
  friend bool operator==(const SequenceEdit&, const SequenceEdit&) = default;
};

struct SequenceHistory {
  SequenceInfo sequence;
  SequenceHandle parent = SequenceHandle::kNone;  // may have been dropped
  std::uint32_t parent_cells = 0;
  std::uint32_t edit_count = 0;     // in total
  std::vector<SequenceEdit> edits;  // the last ones, the oldest first
};

// Values whose computation visits every extent of a sequence: 10 to 20 us for 32,768 cells.
struct SequenceUse {
  std::uint32_t shared_cells = 0;  // cells that another sequence also refers to
  std::uint32_t delta_count = 0;   // number of distinct deltas
  std::int64_t delta_max = 0;      // the largest absolute delta
};

struct SnapshotInfo {
  std::string name;
  SequenceHandle sequence = SequenceHandle::kNone;
  OwnerId owner{};
  bool is_public = false;
  std::uint64_t published_unix_ms = 0;
};

// The blocks of one group; a block has kBlockCells cells.
struct GroupUsage {
  std::uint32_t total_blocks = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t reclaimable_blocks = 0;  // only retained, unpinned sequences refer to them
  std::uint64_t live_cells = 0;          // cells that a sequence refers to, each counted once
};

struct PoolUsage {  // blocks and cells are those of group 0
  std::uint32_t total_blocks = 0;
  std::uint32_t free_blocks = 0;
  std::uint32_t reclaimable_blocks = 0;  // only retained, unpinned sequences refer to them
  std::uint32_t live_sequences = 0;
  std::uint32_t sequence_capacity = 0;
  std::uint64_t live_cells = 0;      // cells that a sequence refers to, each counted once
  std::uint64_t reserved_bytes = 0;  // bytes of the pool file that the system has reserved
  std::uint64_t list_units_free = 0;
  // Recurrent state; all 0 for models without recurrent state.
  std::uint32_t state_slots = 0;
  std::uint32_t free_state_slots = 0;
  std::uint32_t checkpoint_slots = 0;  // slots that hold a checkpoint
  std::uint32_t logits_rows = 0;
  std::uint32_t free_logits_rows = 0;
  std::uint32_t reclaimable_state_slots = 0;  // only retained, unpinned sequences refer to them
  std::uint32_t retained_sequences = 0;       // retained, unpinned sequences
  // All groups, including group 0.
  std::uint32_t group_count = 0;
  std::array<GroupUsage, layout::kGroupsMax> groups = {};
};

}  // namespace kvd
