// TransactionScratch: the data of a Transaction before its commit. The store keeps the scratch, so
// that verbs do not allocate memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/extents.h"
#include "shm/segment_layout.h"

namespace kvd {

// How the committed content of a sequence changes with its record.
enum class Change : std::uint8_t {
  kMoved,     // the same cells at other places; the edit number does not rise
  kShifted,   // the same cells at other positions
  kFacts,     // owner, flags, checkpoints, logits; the cells do not change
  kEdited,    // different cells
  kComputed,  // more cells or a state, by a step; its logits may be kept
};

struct TransactionScratch {
  static constexpr std::uint32_t kNone = ~0u;

  struct Record {
    std::uint32_t index = 0;
    Change change = Change::kFacts;
    bool was_live = false;
    bool was_counted = false;     // the record's cells and slots were counted
    bool is_copy = false;         // equals the record put before it, except for its handle
    std::uint32_t alike = kNone;  // a sequence that begins with the same tokens
    bool is_freed = false;
    layout::SequenceRecord* put = nullptr;  // the new record, in the commit record
    Holder old_holder;
    Holder new_holder;
    // True: only the differences between old and new record are counted. False: all references of
    // the old record are removed from the counts and all references of the new record are added.
    bool is_compared = false;
    // Which entries of a list differ, by group. The old list has lost its first `lost` entries. The
    // first `first` and the last `same_behind` entries of the rest of the old list and of the new
    // list refer to the same cells.
    struct Difference {
      std::uint32_t lost = 0;
      std::uint32_t first = 0;
      std::uint32_t same_behind = 0;
    };
    std::array<Difference, layout::kGroupsMax> differences = {};
  };
  // An owner that may hold more after the transaction.
  struct Grower {
    OwnerId owner{};
    OwnerUse before;  // the owner's CountedUse() before the transaction
  };
  struct Snapshot {
    std::uint32_t index = 0;
    layout::SnapshotRecord old_record = {};
    layout::SnapshotRecord new_record = {};
  };

  struct Session {
    std::uint32_t index = 0;
    std::uint64_t old_id = 0;  // 0: the record is free
    std::uint64_t new_id = 0;
  };

  bool is_open = false;
  std::vector<Record> records;
  std::vector<Grower> growers;
  std::vector<Snapshot> snapshots;
  std::vector<Session> sessions;
  std::vector<layout::ListRoot> lists;     // allocated by the transaction
  std::vector<layout::ListRoot> replaced;  // lists of old records that the new records do not have
  std::vector<std::uint32_t> taken;        // sequence records taken from the free ones
  std::vector<std::uint32_t> taken_snapshots;
  std::vector<std::uint32_t> taken_sessions;
  // The new lists of an edit, by group.
  struct GroupEdit {
    std::vector<BlockRange> ranges;
    std::uint32_t first_cell = 0;
  };
  std::array<GroupEdit, layout::kGroupsMax> edits;
  std::vector<BlockRange> moved_pieces;
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> points;
};

}  // namespace kvd
