// Arguments and reply of the verb that reports a sequence's ancestry and edits.
#pragma once

#include "shm/segment_layout.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

inline constexpr std::size_t kLogSequencesMax = 64;  // largest number of records in one reply

struct LogArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &LogArgs::sequence, Access::kRead));
  }
};

// One record of the log reply. The reply has a record for the sequence, for its parent, for the
// parent's parent and so on, up to the first sequence that no longer exists or that the caller may
// not read.
struct LogRecord {
  std::uint64_t sequence;
  // Handle of the sequence from which this sequence was forked; 0: this sequence is no fork, or its
  // parent belongs to another uid and the caller may not read the parent.
  std::uint64_t parent;
  std::uint64_t created_unix_ms;
  std::uint32_t parent_cells;  // number of cells taken from the parent
  std::uint32_t owner_uid;
  std::uint32_t cell_count;
  // The number of edits of the sequence. `edits` holds the last min(edit_count, kEditsKept) edits,
  // oldest first.
  std::uint32_t edit_count;
  // EditRecord::verb is a wire::Verb; 0: the edit was not made by a request.
  layout::EditRecord edits[layout::kEditsKept];
};
static_assert(sizeof(LogRecord) == 808 && std::is_standard_layout_v<LogRecord>);

}  // namespace kvd::wire
