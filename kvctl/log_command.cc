// kvctl log: shows from which sequence a sequence was forked, and the edits of the sequence and of
// its ancestors.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

// Formats a Unix time in milliseconds as local date and time.
std::string TimeText(std::uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return Concat(unix_ms, " ms");
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return {text, length};
}

std::string VerbText(std::uint16_t verb) {
  if (verb == 0) return "the daemon";
  const wire::VerbRow* const row = wire::FindVerb(verb);
  return row == nullptr ? Concat("verb ", verb) : std::string(row->name);
}

const char* KindText(std::uint16_t kind) {
  switch (kind) {
    case layout::kEditRemoved: return "removed";
    case layout::kEditCopied: return "copied";
    case layout::kEditShifted: return "shifted";
    case layout::kEditDivided: return "divided";
    default: return "unknown";
  }
}

std::string DeltaText(const layout::EditRecord& edit) {
  if (edit.kind == layout::kEditShifted) {
    return Concat((edit.delta > 0 ? " by +" : " by "), edit.delta);
  }
  if (edit.kind == layout::kEditDivided) return Concat(" by ", edit.delta);
  return {};
}

std::span<const layout::EditRecord> EditsOf(const wire::LogRecord& record) {
  return std::span(record.edits).first(std::min(record.edit_count, layout::kEditsKept));
}

Json JsonOf(const wire::LogRecord& record) {
  Json edits = Json::Array();
  for (const layout::EditRecord& edit : EditsOf(record)) {
    Json json = Json::Object();
    json.Set("unix_ms", edit.unix_ms)
        .Set("verb", edit.verb == 0 ? std::string() : VerbText(edit.verb))
        .Set("edit", std::string(KindText(edit.kind)))
        .Set("p0", std::int64_t{edit.first})
        .Set("p1", std::int64_t{edit.end})
        .Set("delta", std::int64_t{edit.delta});
    edits.Add(std::move(json));
  }
  Json json = Json::Object();
  json.Set("handle", HandleText(static_cast<SequenceHandle>(record.sequence)))
      .Set("owner_uid", std::uint64_t{record.owner_uid})
      .Set("cells", std::uint64_t{record.cell_count})
      .Set("created_unix_ms", record.created_unix_ms)
      .Set("edit_count", std::uint64_t{record.edit_count})
      .Set("edits", std::move(edits))
      .Set("parent", record.parent == 0 ? std::string()
                                        : HandleText(static_cast<SequenceHandle>(record.parent)))
      .Set("parent_cells", std::uint64_t{record.parent_cells});
  return json;
}

void Print(const wire::LogRecord& record) {
  std::printf("sequence %s: %u cells, uid %u, created %s\n",
              HandleText(static_cast<SequenceHandle>(record.sequence)).c_str(), record.cell_count,
              record.owner_uid, TimeText(record.created_unix_ms).c_str());
  const auto edits = EditsOf(record);
  if (record.edit_count > edits.size()) {
    std::printf("  %u edits; the last %zu:\n", record.edit_count, edits.size());
  }
  for (const layout::EditRecord& edit : edits) {
    std::printf("  %s  %-12s  %s [%d, %d)%s\n", TimeText(edit.unix_ms).c_str(),
                VerbText(edit.verb).c_str(), KindText(edit.kind), edit.first, edit.end,
                DeltaText(edit).c_str());
  }
}

}  // namespace

Status ShowLog(const GlobalOptions& global, const SequenceOptions& options) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const NamedSequence sequence, FindSequence(client, options.handles.front()));
  KVD_TRY(const auto log, client.Call(wire::LogArgs{sequence.handle}));
  const auto& records = log.entries;
  if (global.wants_json) {
    Json list = Json::Array();
    for (const wire::LogRecord& record : records) list.Add(JsonOf(record));
    std::puts(list.Text().c_str());
    return {};
  }
  for (const wire::LogRecord& record : records) {
    Print(record);
    if (record.parent == 0) break;
    std::printf("forked with %u cells from\n", record.parent_cells);
    if (&record != &records.back()) continue;
    const bool is_full = records.size() == wire::kLogSequencesMax;
    std::printf("sequence %s%s\n", HandleText(static_cast<SequenceHandle>(record.parent)).c_str(),
                is_full ? "; older ancestors are not shown" : ", which is gone");
  }
  return {};
}

}  // namespace kvd::kvctl
