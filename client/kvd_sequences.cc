// The functions of kvd.h for sequences.
#include <algorithm>
#include <optional>
#include <vector>

#include "client/c_api.h"
#include "client/kvd.h"

namespace kvd {
namespace {

static_assert(static_cast<unsigned>(layout::kSequenceEdited) == KVD_SEQUENCE_EDITED);
static_assert(static_cast<unsigned>(layout::kSequenceEphemeral) == KVD_SEQUENCE_EPHEMERAL);
static_assert(sizeof(kvd_sequence_info) == sizeof(wire::SequenceEntry));
static_assert(sizeof(kvd_token_at) == sizeof(wire::TokenAndPosition));

kvd_sequence_info InfoFrom(const wire::SequenceEntry& entry) {
  return {entry.handle,      entry.session,    entry.owner_uid,    entry.owner_pid,
          entry.flags,       entry.cell_count, entry.shared_cells, entry.extent_count,
          entry.delta_count, entry.first_pos,  entry.next_pos,     entry.expires_in_seconds,
          entry.age_ms};
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

Status Create(kvd_client* client, std::uint32_t ttl_seconds, std::uint32_t flags,
              kvd_sequence* sequence, kvd_request* later) {
  KVD_CHECK_OK(NotNull(sequence, "sequence"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_EPHEMERAL));
  KVD_CHECK_OK(CheckTtl(ttl_seconds));
  return Ask(client, later, wire::CreateArgs{.ttl_seconds = ttl_seconds}, {}, wire_flags,
             [sequence](const wire::CreateReply& reply) -> Status {
               *sequence = static_cast<kvd_sequence>(reply.sequence);
               return {};
             });
}

Status Fork(kvd_client* client, kvd_sequence sequence, std::int32_t cell_count, std::uint32_t count,
            std::uint32_t ttl_seconds, std::uint32_t flags, kvd_sequence* forks,
            kvd_fork_info* info, kvd_request* later) {
  KVD_CHECK_OK(NotNull(forks, "forks"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_EPHEMERAL));
  KVD_CHECK_OK(CheckTtl(ttl_seconds));
  const wire::ForkArgs args{.sequence = HandleFrom(sequence),
                            .cells = CellsFrom(cell_count),
                            .count = count,
                            .ttl_seconds = ttl_seconds};
  return Ask(client, later, args, {}, wire_flags, [=](const wire::ForkReply& reply) -> Status {
    KVD_CHECK_OK(CheckForkCount(reply, count));
    std::memcpy(forks, reply.handles.data(), reply.handles.size() * sizeof *forks);
    if (info != nullptr) *info = {reply.nanoseconds, reply.cells, reply.replayed};
    return {};
  });
}

Status Drop(kvd_client* client, kvd_sequence sequence, std::uint32_t flags, kvd_request* later) {
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
  return Ask(client, later, wire::DropArgs{HandleFrom(sequence)}, {}, wire_flags, kGiveNothing);
}

// Returns the `give` argument of Ask for a copy or a removal.
auto GiveEdit(std::uint64_t* cells, std::uint64_t* replayed) {
  return [=](const wire::EditReply& reply) -> Status {
    Put(reply.cells, cells);
    Put(reply.replayed, replayed);
    return {};
  };
}

Status Copy(kvd_client* client, kvd_sequence source, kvd_sequence destination, std::int32_t p0,
            std::int32_t p1, std::uint64_t* cells, std::uint64_t* replayed, kvd_request* later) {
  KVD_TRY(const PosRange range, RangeFrom(p0, p1));
  return Ask(client, later, wire::CopyRangeArgs{HandleFrom(source), HandleFrom(destination), range},
             {}, 0, GiveEdit(cells, replayed));
}

Status Remove(kvd_client* client, kvd_sequence sequence, std::int32_t p0, std::int32_t p1,
              std::uint64_t* cells, std::uint64_t* replayed, kvd_request* later) {
  KVD_TRY(const PosRange range, RangeFrom(p0, p1));
  return Ask(client, later, wire::RemoveRangeArgs{HandleFrom(sequence), range}, {}, 0,
             GiveEdit(cells, replayed));
}

Status Retain(kvd_client* client, kvd_sequence sequence, std::uint32_t flags, int* is_retained,
              kvd_request* later) {
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
  return Ask(client, later, wire::RetainArgs{HandleFrom(sequence)}, {}, wire_flags,
             [=](const wire::RetainReply& reply) -> Status {
               Put(reply.stays ? 1 : 0, is_retained);
               return {};
             });
}

Status Pin(kvd_client* client, kvd_sequence sequence, int is_pinned, std::uint32_t flags,
           kvd_request* later) {
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
  return Ask(client, later, wire::PinArgs{HandleFrom(sequence), is_pinned != 0}, {}, wire_flags,
             kGiveNothing);
}

Status Life(kvd_client* client, kvd_sequence sequence, std::uint32_t ttl_seconds,
            std::uint32_t flags, kvd_request* later) {
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE | KVD_EPHEMERAL));
  KVD_CHECK_OK(CheckTtl(ttl_seconds));
  return Ask(client, later, wire::SetLifeArgs{HandleFrom(sequence), ttl_seconds}, {}, wire_flags,
             kGiveNothing);
}

Status DropRetained(kvd_client* client, std::uint32_t flags, std::uint64_t* count,
                    kvd_request* later) {
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
  return Ask(client, later, wire::DropRetainedArgs{}, {}, wire_flags,
             [=](const wire::DropRetainedReply& reply) -> Status {
               Put(reply.count, count);
               return {};
             });
}

Status Keep(kvd_client* client, kvd_sequence sequence, kvd_request* later) {
  return Ask(client, later, wire::KeepArgs{HandleFrom(sequence)}, {}, 0, kGiveNothing);
}

Status Clear(kvd_client* client, kvd_sequence sequence, kvd_request* later) {
  return Ask(client, later, wire::ClearArgs{HandleFrom(sequence)}, {}, 0, kGiveNothing);
}

Status Add(kvd_client* client, kvd_sequence sequence, std::int32_t p0, std::int32_t p1,
           std::int32_t delta, kvd_request* later) {
  KVD_TRY(const PosRange range, RangeFrom(p0, p1));
  return Ask(client, later, wire::AddArgs{HandleFrom(sequence), range, delta}, {}, 0, kGiveNothing);
}

Status Divide(kvd_client* client, kvd_sequence sequence, std::int32_t p0, std::int32_t p1,
              std::int32_t divisor, std::uint64_t* cells, kvd_request* later) {
  KVD_TRY(const PosRange range, RangeFrom(p0, p1));
  return Ask(client, later, wire::DivideArgs{HandleFrom(sequence), range, divisor}, {}, 0,
             [=](const wire::DivideReply& reply) -> Status {
               Put(reply.cells, cells);
               return {};
             });
}

Status Query(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info,
             kvd_request* later) {
  KVD_CHECK_OK(NotNull(info, "info"));
  return Ask(client, later, wire::QueryArgs{HandleFrom(sequence)}, {}, 0,
             [=](const wire::QueryReply& reply) -> Status {
               *info = InfoFrom(reply.entry);
               return {};
             });
}

Status List(kvd_client* client, kvd_sequence_info** list, std::size_t* count, kvd_request* later) {
  KVD_CHECK_OK(NotNull(list, "list"));
  KVD_CHECK_OK(NotNull(count, "count"));
  return Ask(client, later, wire::ListArgs{}, {}, 0, [=](const auto& reply) -> Status {
    std::vector<kvd_sequence_info> infos;
    for (const wire::SequenceEntry& entry : reply.entries) infos.push_back(InfoFrom(entry));
    return GiveList(infos, list, count);
  });
}

Status ReadTokens(kvd_client* client, kvd_sequence sequence, std::int32_t first_cell,
                  std::int32_t cell_count, kvd_token_at** tokens, std::size_t* token_count,
                  kvd_request* later) {
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
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_sequence_create(kvd_client* client, kvd_sequence* sequence) {
  return CallBody([&] { return Create(client, 0, 0, sequence, nullptr); });
}
int kvd_sequence_create_submit(kvd_client* client, kvd_sequence* sequence, kvd_request* request) {
  return SubmitBody(request, [&] { return Create(client, 0, 0, sequence, request); });
}
int kvd_sequence_create_with(kvd_client* client, uint32_t ttl_seconds, uint32_t flags,
                             kvd_sequence* sequence) {
  return CallBody([&] { return Create(client, ttl_seconds, flags, sequence, nullptr); });
}
int kvd_sequence_create_with_submit(kvd_client* client, uint32_t ttl_seconds, uint32_t flags,
                                    kvd_sequence* sequence, kvd_request* request) {
  return SubmitBody(request, [&] { return Create(client, ttl_seconds, flags, sequence, request); });
}

int kvd_sequence_fork(kvd_client* client, kvd_sequence sequence, int32_t cell_count, uint32_t count,
                      kvd_sequence* forks, kvd_fork_info* info) {
  return CallBody(
      [&] { return Fork(client, sequence, cell_count, count, 0, 0, forks, info, nullptr); });
}
int kvd_sequence_fork_submit(kvd_client* client, kvd_sequence sequence, int32_t cell_count,
                             uint32_t count, kvd_sequence* forks, kvd_fork_info* info,
                             kvd_request* request) {
  return SubmitBody(request, [&] {
    return Fork(client, sequence, cell_count, count, 0, 0, forks, info, request);
  });
}
int kvd_sequence_fork_with(kvd_client* client, kvd_sequence sequence, int32_t cell_count,
                           uint32_t count, uint32_t ttl_seconds, uint32_t flags,
                           kvd_sequence* forks, kvd_fork_info* info) {
  return CallBody([&] {
    return Fork(client, sequence, cell_count, count, ttl_seconds, flags, forks, info, nullptr);
  });
}
int kvd_sequence_fork_with_submit(kvd_client* client, kvd_sequence sequence, int32_t cell_count,
                                  uint32_t count, uint32_t ttl_seconds, uint32_t flags,
                                  kvd_sequence* forks, kvd_fork_info* info, kvd_request* request) {
  return SubmitBody(request, [&] {
    return Fork(client, sequence, cell_count, count, ttl_seconds, flags, forks, info, request);
  });
}

int kvd_sequence_drop(kvd_client* client, kvd_sequence sequence, uint32_t flags) {
  return CallBody([&] { return Drop(client, sequence, flags, nullptr); });
}
int kvd_sequence_drop_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                             kvd_request* request) {
  return SubmitBody(request, [&] { return Drop(client, sequence, flags, request); });
}

int kvd_sequence_copy(kvd_client* client, kvd_sequence source, kvd_sequence destination, int32_t p0,
                      int32_t p1, uint64_t* cells, uint64_t* replayed) {
  return CallBody(
      [&] { return Copy(client, source, destination, p0, p1, cells, replayed, nullptr); });
}
int kvd_sequence_copy_submit(kvd_client* client, kvd_sequence source, kvd_sequence destination,
                             int32_t p0, int32_t p1, uint64_t* cells, uint64_t* replayed,
                             kvd_request* request) {
  return SubmitBody(
      request, [&] { return Copy(client, source, destination, p0, p1, cells, replayed, request); });
}

int kvd_sequence_remove(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        uint64_t* cells, uint64_t* replayed) {
  return CallBody([&] { return Remove(client, sequence, p0, p1, cells, replayed, nullptr); });
}
int kvd_sequence_remove_submit(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                               uint64_t* cells, uint64_t* replayed, kvd_request* request) {
  return SubmitBody(request,
                    [&] { return Remove(client, sequence, p0, p1, cells, replayed, request); });
}

int kvd_sequence_retain(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                        int* is_retained) {
  return CallBody([&] { return Retain(client, sequence, flags, is_retained, nullptr); });
}
int kvd_sequence_retain_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                               int* is_retained, kvd_request* request) {
  return SubmitBody(request, [&] { return Retain(client, sequence, flags, is_retained, request); });
}

int kvd_sequence_pin(kvd_client* client, kvd_sequence sequence, int is_pinned, uint32_t flags) {
  return CallBody([&] { return Pin(client, sequence, is_pinned, flags, nullptr); });
}
int kvd_sequence_pin_submit(kvd_client* client, kvd_sequence sequence, int is_pinned,
                            uint32_t flags, kvd_request* request) {
  return SubmitBody(request, [&] { return Pin(client, sequence, is_pinned, flags, request); });
}

int kvd_sequence_life(kvd_client* client, kvd_sequence sequence, uint32_t ttl_seconds,
                      uint32_t flags) {
  return CallBody([&] { return Life(client, sequence, ttl_seconds, flags, nullptr); });
}
int kvd_sequence_life_submit(kvd_client* client, kvd_sequence sequence, uint32_t ttl_seconds,
                             uint32_t flags, kvd_request* request) {
  return SubmitBody(request, [&] { return Life(client, sequence, ttl_seconds, flags, request); });
}

int kvd_drop_retained(kvd_client* client, uint32_t flags, uint64_t* count) {
  return CallBody([&] { return DropRetained(client, flags, count, nullptr); });
}
int kvd_drop_retained_submit(kvd_client* client, uint32_t flags, uint64_t* count,
                             kvd_request* request) {
  return SubmitBody(request, [&] { return DropRetained(client, flags, count, request); });
}

int kvd_sequence_keep(kvd_client* client, kvd_sequence sequence) {
  return CallBody([&] { return Keep(client, sequence, nullptr); });
}
int kvd_sequence_keep_submit(kvd_client* client, kvd_sequence sequence, kvd_request* request) {
  return SubmitBody(request, [&] { return Keep(client, sequence, request); });
}

int kvd_sequence_clear(kvd_client* client, kvd_sequence sequence) {
  return CallBody([&] { return Clear(client, sequence, nullptr); });
}
int kvd_sequence_clear_submit(kvd_client* client, kvd_sequence sequence, kvd_request* request) {
  return SubmitBody(request, [&] { return Clear(client, sequence, request); });
}

int kvd_sequence_add(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                     int32_t delta) {
  return CallBody([&] { return Add(client, sequence, p0, p1, delta, nullptr); });
}
int kvd_sequence_add_submit(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                            int32_t delta, kvd_request* request) {
  return SubmitBody(request, [&] { return Add(client, sequence, p0, p1, delta, request); });
}

int kvd_sequence_divide(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        int32_t divisor, uint64_t* cells) {
  return CallBody([&] { return Divide(client, sequence, p0, p1, divisor, cells, nullptr); });
}
int kvd_sequence_divide_submit(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                               int32_t divisor, uint64_t* cells, kvd_request* request) {
  return SubmitBody(request,
                    [&] { return Divide(client, sequence, p0, p1, divisor, cells, request); });
}

int kvd_sequence_query(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info) {
  return CallBody([&] { return Query(client, sequence, info, nullptr); });
}
int kvd_sequence_query_submit(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info,
                              kvd_request* request) {
  return SubmitBody(request, [&] { return Query(client, sequence, info, request); });
}

int kvd_list(kvd_client* client, kvd_sequence_info** list, size_t* count) {
  return CallBody([&] { return List(client, list, count, nullptr); });
}
int kvd_list_submit(kvd_client* client, kvd_sequence_info** list, size_t* count,
                    kvd_request* request) {
  return SubmitBody(request, [&] { return List(client, list, count, request); });
}

int kvd_read_tokens(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                    int32_t cell_count, kvd_token_at** tokens, size_t* token_count) {
  return CallBody([&] {
    return ReadTokens(client, sequence, first_cell, cell_count, tokens, token_count, nullptr);
  });
}
int kvd_read_tokens_submit(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                           int32_t cell_count, kvd_token_at** tokens, size_t* token_count,
                           kvd_request* request) {
  return SubmitBody(request, [&] {
    return ReadTokens(client, sequence, first_cell, cell_count, tokens, token_count, request);
  });
}
