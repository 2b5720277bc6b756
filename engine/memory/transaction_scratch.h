// What a Transaction writes down while it is put together. Kept by the store, so that verbs do not
// allocate.
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
  kMoved,     // the same cells lie elsewhere; not even the edit number rises
  kShifted,   // the same cells at other positions
  kFacts,     // owner, flags, checkpoints, logits: its cells stay as they are
  kEdited,    // other cells
  kComputed,  // more cells or a state, by a step: logits kept for it are its own
};

struct TransactionScratch {
  static constexpr std::uint32_t kNone = ~0u;

  struct Record {
    std::uint32_t index = 0;
    Change change = Change::kFacts;
    bool was_live = false;
    bool was_counted = false;     // its cells and slots
    bool is_copy = false;         // of the record put before it, but for its handle
    std::uint32_t alike = kNone;  // begins with the same tokens as this sequence
    bool is_freed = false;
    layout::SequenceRecord* put = nullptr;  // in the commit record
    Holder old_holder;
    Holder new_holder;
    // Old and new record are compared; else the one is uncounted and the other counted as a whole.
    bool is_compared = false;
    // Which entries of a list are another's, by group. The old list has lost its first `lost` entries;
    // of what is left of it, and of the new list, the first `first` and the last `same_behind` entries
    // refer to the same cells.
    struct Difference {
      std::uint32_t lost = 0;
      std::uint32_t first = 0;
      std::uint32_t same_behind = 0;
    };
    std::array<Difference, layout::kGroupsMax> differences = {};
  };
  // An owner that holds more after the transaction, perhaps.
  struct Grower {
    OwnerId owner{};
    OwnerUse before;  // CountedUse()
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
  std::vector<layout::ListRoot> lists;     // allocated
  std::vector<layout::ListRoot> replaced;  // of old records, and not of the new ones
  std::vector<std::uint32_t> taken;        // free sequence records
  std::vector<std::uint32_t> taken_snapshots;
  std::vector<std::uint32_t> taken_sessions;
  // Lists of an edit, by group.
  struct GroupEdit {
    std::vector<Piece> pieces;
    std::uint32_t first_cell = 0;
  };
  std::array<GroupEdit, layout::kGroupsMax> edits;
  std::vector<Piece> moved_pieces;
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> points;
};

}  // namespace kvd
