// The functions kvd_log and kvd_log_submit of kvd.h.
#include <algorithm>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"

namespace kvd {
namespace {

static_assert(KVD_EDITS_KEPT == layout::kEditsKept);
static_assert(KVD_EDIT_REMOVED == int{layout::kEditRemoved} &&
              KVD_EDIT_COPIED == int{layout::kEditCopied} &&
              KVD_EDIT_SHIFTED == int{layout::kEditShifted} &&
              KVD_EDIT_DIVIDED == int{layout::kEditDivided});

kvd_log_entry EntryOf(const wire::LogRecord& record) {
  kvd_log_entry entry{};
  entry.sequence = record.sequence;
  entry.parent = record.parent;
  entry.created_unix_ms = record.created_unix_ms;
  entry.parent_cells = record.parent_cells;
  entry.owner_uid = record.owner_uid;
  entry.cell_count = record.cell_count;
  entry.edit_count = record.edit_count;
  std::ranges::transform(record.edits, entry.edits, [](const layout::EditRecord& edit) {
    return kvd_edit{edit.unix_ms, edit.first, edit.end, edit.delta, edit.kind, edit.verb};
  });
  return entry;
}

Status Log(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, std::size_t* count,
           kvd_request* later) {
  KVD_CHECK_OK(NotNull(list, "list"));
  KVD_CHECK_OK(NotNull(count, "count"));
  return Ask(client, later, wire::LogArgs{HandleFrom(sequence)}, {}, 0,
             [=](const auto& reply) -> Status {
               std::vector<kvd_log_entry> entries;
               for (const wire::LogRecord& record : reply.entries) {
                 entries.push_back(EntryOf(record));
               }
               return GiveList(entries, list, count);
             });
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_log(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, size_t* count) {
  return CallBody([&] { return Log(client, sequence, list, count, nullptr); });
}
int kvd_log_submit(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, size_t* count,
                   kvd_request* request) {
  return SubmitBody(request, [&] { return Log(client, sequence, list, count, request); });
}
