// The functions of kvd.h for sequences and snapshots.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"

// The functions of kvd.h that make, edit and describe sequences, and the prefixes that a prompt
// could reuse from them.

namespace kvd {
namespace {

static_assert(static_cast<unsigned>(layout::kSequenceEdited) == KVD_SEQUENCE_EDITED);
static_assert(static_cast<unsigned>(layout::kSequenceEphemeral) == KVD_SEQUENCE_EPHEMERAL);
static_assert(sizeof(kvd_sequence_info) == sizeof(wire::SequenceEntry));
static_assert(wire::kRequestWaits == std::uint32_t{KVD_REQUEST_WAITS} &&
              wire::kRequestComputes == std::uint32_t{KVD_REQUEST_COMPUTES} &&
              wire::kRequestParked == std::uint32_t{KVD_REQUEST_PARKED});
static_assert(sizeof(kvd_why_info::prompt_text) == wire::kWhyTextBytes);
static_assert(sizeof(kvd_token_at) == sizeof(wire::TokenAndPosition));

kvd_sequence_info InfoFrom(const wire::SequenceEntry& entry) {
  return {entry.handle,         entry.session,       entry.owner_uid,
          entry.owner_pid,      entry.flags,         entry.cell_count,
          entry.shared_cells,   entry.extent_count,  entry.delta_count,
          entry.first_pos,      entry.next_pos,      entry.expires_in_seconds,
          entry.age_ms,         entry.request_state, entry.request_tokens_done,
          entry.request_tokens, entry.parked_ms};
}

Result<PosRange> RangeFrom(std::int32_t p0, std::int32_t p1) {
  if (p0 < 0) return Fail(Code::kInvalidArgument, "p0: ", p0, " is negative");
  if (p1 >= 0 && p1 < p0) {
    return Fail(Code::kInvalidArgument, "p1: ", p1, " is before p0, ", p0);
  }
  return PosRange{Pos{p0}, p1 < 0 ? kPosEnd : Pos{p1}};
}

std::optional<std::uint32_t> CellsFrom(std::int32_t cell_count) {
  if (cell_count < 0) return std::nullopt;
  return static_cast<std::uint32_t>(cell_count);
}

template <class T>
void Put(T number, T* out) {
  if (out != nullptr) *out = number;
}

// Returns the `give` argument of Ask for a copy or a removal.
auto GiveEdit(std::uint64_t* cells, std::uint64_t* replayed) {
  return [=](const wire::EditReply& reply) -> Status {
    Put(reply.cells, cells);
    Put(reply.replayed, replayed);
    return {};
  };
}

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

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_sequence_create(kvd_client* client, const kvd_sequence_options* options,
                        kvd_sequence* sequence, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(sequence, "sequence"));
    KVD_TRY(const NewSequenceOptions made, NewSequenceFrom(options, KVD_EPHEMERAL));
    return Ask(client, later, wire::CreateArgs{.ttl_seconds = made.ttl_seconds}, {}, made.flags,
               [sequence](const wire::CreateReply& reply) -> Status {
                 *sequence = static_cast<kvd_sequence>(reply.sequence);
                 return {};
               });
  });
}

int kvd_sequence_fork(kvd_client* client, kvd_sequence sequence, int32_t cell_count, uint32_t count,
                      const kvd_sequence_options* options, kvd_sequence* forks, kvd_fork_info* info,
                      kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    if (count != 0) KVD_CHECK_OK(NotNull(forks, "forks"));
    KVD_TRY(const NewSequenceOptions made, NewSequenceFrom(options, KVD_EPHEMERAL));
    const wire::ForkArgs args{.sequence = HandleFrom(sequence),
                              .cells = CellsFrom(cell_count),
                              .count = count,
                              .ttl_seconds = made.ttl_seconds};
    return Ask(client, later, args, {}, made.flags, [=](const wire::ForkReply& reply) -> Status {
      KVD_CHECK_OK(CheckForkCount(reply, count));
      std::memcpy(forks, reply.handles.data(), reply.handles.size() * sizeof *forks);
      if (info != nullptr) *info = {reply.nanoseconds, reply.cells, reply.replayed};
      return {};
    });
  });
}

int kvd_sequence_drop(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                      kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return Ask(client, later, wire::DropArgs{HandleFrom(sequence)}, {}, wire_flags, kGiveNothing);
  });
}

int kvd_sequence_copy(kvd_client* client, kvd_sequence source, kvd_sequence destination, int32_t p0,
                      int32_t p1, uint64_t* cells, uint64_t* replayed, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return Ask(client, later,
               wire::CopyRangeArgs{HandleFrom(source), HandleFrom(destination), range}, {}, 0,
               GiveEdit(cells, replayed));
  });
}

int kvd_sequence_remove(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        uint64_t* cells, uint64_t* replayed, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return Ask(client, later, wire::RemoveRangeArgs{HandleFrom(sequence), range}, {}, 0,
               GiveEdit(cells, replayed));
  });
}

int kvd_sequence_retain(kvd_client* client, kvd_sequence sequence, uint32_t flags, int* is_retained,
                        kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return Ask(client, later, wire::RetainArgs{HandleFrom(sequence)}, {}, wire_flags,
               [=](const wire::RetainReply& reply) -> Status {
                 Put(reply.stays ? 1 : 0, is_retained);
                 return {};
               });
  });
}

int kvd_sequence_pin(kvd_client* client, kvd_sequence sequence, int is_pinned, uint32_t flags,
                     kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return Ask(client, later, wire::PinArgs{HandleFrom(sequence), is_pinned != 0}, {}, wire_flags,
               kGiveNothing);
  });
}

int kvd_sequence_life(kvd_client* client, kvd_sequence sequence, uint32_t ttl_seconds,
                      uint32_t flags, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE | KVD_EPHEMERAL));
    KVD_CHECK_OK(CheckTtl(ttl_seconds));
    return Ask(client, later, wire::SetLifeArgs{HandleFrom(sequence), ttl_seconds}, {}, wire_flags,
               kGiveNothing);
  });
}

int kvd_drop_retained(kvd_client* client, uint32_t flags, uint64_t* count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return Ask(client, later, wire::DropRetainedArgs{}, {}, wire_flags,
               [=](const wire::DropRetainedReply& reply) -> Status {
                 Put(reply.count, count);
                 return {};
               });
  });
}

int kvd_sequence_keep(kvd_client* client, kvd_sequence sequence, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    return Ask(client, later, wire::KeepArgs{HandleFrom(sequence)}, {}, 0, kGiveNothing);
  });
}

int kvd_sequence_clear(kvd_client* client, kvd_sequence sequence, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    return Ask(client, later, wire::ClearArgs{HandleFrom(sequence)}, {}, 0, kGiveNothing);
  });
}

int kvd_sequence_add(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                     int32_t delta, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return Ask(client, later, wire::AddArgs{HandleFrom(sequence), range, delta}, {}, 0,
               kGiveNothing);
  });
}

int kvd_sequence_divide(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        int32_t divisor, uint64_t* cells, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return Ask(client, later, wire::DivideArgs{HandleFrom(sequence), range, divisor}, {}, 0,
               [=](const wire::DivideReply& reply) -> Status {
                 Put(reply.cells, cells);
                 return {};
               });
  });
}

int kvd_sequence_query(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info,
                       kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(info, "info"));
    return Ask(client, later, wire::QueryArgs{HandleFrom(sequence)}, {}, 0,
               [=](const wire::QueryReply& reply) -> Status {
                 *info = InfoFrom(reply.entry);
                 return {};
               });
  });
}

int kvd_list(kvd_client* client, kvd_sequence_info** list, size_t* count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    return Ask(client, later, wire::ListArgs{}, {}, 0, [=](const auto& reply) -> Status {
      std::vector<kvd_sequence_info> infos;
      for (const wire::SequenceEntry& entry : reply.entries) infos.push_back(InfoFrom(entry));
      return GiveList(infos, list, count);
    });
  });
}

int kvd_read_tokens(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                    int32_t cell_count, kvd_token_at** tokens, size_t* token_count,
                    kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(token_count, "token_count"));
    const wire::ReadTokensArgs args{
        .sequence = HandleFrom(sequence), .first_cell = first_cell, .count = CellsFrom(cell_count)};
    return Ask(client, later, args, {}, 0, [=](const wire::ReadTokensReply& reply) -> Status {
      *tokens = CopyForCaller(reinterpret_cast<const kvd_token_at*>(reply.cells.data()),
                              reply.cells.size());
      *token_count = reply.cells.size();
      return {};
    });
  });
}

int kvd_log(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, size_t* count,
            kvd_request* later) {
  return CallBody(later, [&]() -> Status {
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
  });
}

int kvd_why(kvd_client* client, const kvd_token* tokens, size_t token_count, kvd_why_info* info,
            kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(info, "info"));
    const auto payload = std::as_bytes(std::span(tokens, token_count));
    return Ask(client, later, wire::WhyArgs{}, PayloadOf(payload), 0,
               [info](const auto& reply) -> Status {
                 const wire::WhyRecord& found = reply.record;
                 *info = {.source = found.source,
                          .nearest = found.nearest,
                          .prompt_tokens = found.prompt_tokens,
                          .reused = found.reused,
                          .common = found.common,
                          .on_disk = found.on_disk,
                          .prompt_token = found.prompt_token,
                          .cached_token = found.cached_token,
                          .shared_origin = found.origin,
                          .share_limit = found.limit,
                          .reserved = 0,
                          .prompt_text = {},
                          .cached_text = {}};
                 std::memcpy(info->prompt_text, found.prompt_text, sizeof info->prompt_text - 1);
                 std::memcpy(info->cached_text, found.cached_text, sizeof info->cached_text - 1);
                 return {};
               });
  });
}

// The functions of kvd.h for snapshots.

int kvd_publish(kvd_client* client, kvd_sequence sequence, const char* name,
                const kvd_sequence_options* options, kvd_sequence* snapshot, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const NewSequenceOptions made,
            NewSequenceFrom(options, KVD_FORCE | KVD_PUBLIC | KVD_EPHEMERAL));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::PublishArgs{HandleFrom(sequence), made.ttl_seconds},
               PayloadOf(payload), made.flags, [=](const wire::PublishReply& reply) -> Status {
                 if (snapshot != nullptr) *snapshot = static_cast<kvd_sequence>(reply.sequence);
                 return {};
               });
  });
}

int kvd_unpublish(kvd_client* client, const char* name, uint32_t flags, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::UnpublishArgs{}, PayloadOf(payload), wire_flags, kGiveNothing);
  });
}

int kvd_attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info,
               kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_CHECK_OK(NotNull(sequence, "sequence"));
    const auto payload = BytesFrom(name);
    return Ask(client, later, wire::AttachArgs{}, PayloadOf(payload), 0,
               [=](const wire::ForkedReply& reply) -> Status {
                 *sequence = static_cast<kvd_sequence>(reply.sequence);
                 if (info != nullptr) *info = {reply.nanoseconds, reply.cells, 0};
                 return {};
               });
  });
}

int kvd_snapshots(kvd_client* client, kvd_snapshot_info** list, size_t* count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    return Ask(client, later, wire::SnapshotsArgs{}, {}, 0, [=](const auto& reply) -> Status {
      std::vector<kvd_snapshot_info> infos;
      for (const wire::SnapshotEntry& entry : reply.entries) {
        kvd_snapshot_info info{};
        std::memcpy(info.name, entry.name, ::strnlen(entry.name, sizeof entry.name));
        info.sequence = entry.sequence;
        info.owner_uid = entry.owner_uid;
        info.is_public = entry.is_public;
        info.is_own = entry.is_own;
        info.is_ephemeral = entry.is_ephemeral;
        info.cell_count = entry.cell_count;
        info.expires_in_seconds = entry.expires_in_seconds;
        info.age_ms = entry.age_ms;
        infos.push_back(info);
      }
      return GiveList(infos, list, count);
    });
  });
}
