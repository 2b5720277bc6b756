// kLog lists a sequence and its ancestors (each entry is forked from the next one), each with its
// last edits. The list ends at a parent that the caller may not read, as if that parent did not
// exist.
#include <algorithm>

#include "daemon/service.h"

namespace kvd {
namespace {

wire::LogRecord RecordOf(const SequenceHistory& history, std::uint32_t owner_uid) {
  wire::LogRecord record{};
  record.sequence = static_cast<std::uint64_t>(history.sequence.handle);
  record.parent = static_cast<std::uint64_t>(history.parent);
  record.created_unix_ms = history.sequence.created_unix_ms;
  record.parent_cells = history.parent_cells;
  record.owner_uid = owner_uid;
  record.cell_count = history.sequence.cell_count;
  record.edit_count = history.edit_count;
  std::ranges::transform(history.edits, record.edits, [](const SequenceEdit& edit) {
    return layout::EditRecord{.unix_ms = edit.unix_ms,
                              .first = edit.range.begin.value,
                              .end = edit.range.end.value,
                              .delta = edit.delta,
                              .kind = edit.kind,
                              .verb = edit.request_kind};
  });
  return record;
}

}  // namespace

Result<wire::ListReply<wire::LogRecord>> Service::Do(const Call<wire::LogArgs>& call) {
  KVD_TRY(SequenceHistory history, memory_.sequences().QueryHistory(call.args.sequence));
  wire::ListReply<wire::LogRecord> reply;
  while (true) {
    wire::LogRecord& record =
        reply.entries.emplace_back(RecordOf(history, shares_.UidOf(history.sequence.owner.id)));
    if (history.parent == SequenceHandle::kNone) break;
    Result<SequenceHistory> parent = memory_.sequences().QueryHistory(history.parent);
    if (!parent || AccessOf(call.caller, parent->sequence) == SequenceAccess::kNone) {
      // If the sequence belongs to the caller, its parent's handle stays in the record, because the
      // caller has made the fork. For a sequence of another owner, the handle of the parent is
      // removed from the record.
      if (history.sequence.owner.id != call.caller.owner) record.parent = record.parent_cells = 0;
      break;
    }
    if (reply.entries.size() == wire::kLogSequencesMax) break;
    history = std::move(*parent);
  }
  return reply;
}

}  // namespace kvd
