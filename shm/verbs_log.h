// Arguments and reply of the verb that tells what a sequence was forked from and how it was edited.
#pragma once

#include "shm/segment_layout.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

inline constexpr std::size_t kLogSequencesMax = 64;  // of one chain

struct LogArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &LogArgs::sequence, Access::kRead)};
  }
};

// The reply: the sequence, then its parent, the parent's parent and so on, while they exist and the
// caller may read them.
struct LogRecord {
  std::uint64_t sequence;
  // What it was forked from; 0: nothing. Of another uid's sequence: only if the caller may read it.
  std::uint64_t parent;
  std::uint64_t created_unix_ms;
  std::uint32_t parent_cells;  // that the fork began with
  std::uint32_t owner_uid;
  std::uint32_t cell_count;
  std::uint32_t
      edit_count;  // so far; the last min(edit_count, kEditsKept) follow, the oldest first
  layout::EditRecord edits[layout::kEditsKept];  // `verb` is a wire::Verb; 0: no request's
};
static_assert(sizeof(LogRecord) == 808 && std::is_standard_layout_v<LogRecord>);

}  // namespace kvd::wire
