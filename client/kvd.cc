// The C interface: arguments checked, one call of Client each, results copied out.
#include "client/kvd.h"

#include <chrono>
#include <limits>
#include <string_view>
#include <vector>

#include "client/c_api.h"

namespace kvd {
namespace {

thread_local std::string last_message;
thread_local int last_code = KVD_OK;

static_assert(static_cast<int>(Code::kWindowLost) == KVD_WINDOW_LOST);
static_assert(static_cast<int>(Code::kSessionLost) == KVD_SESSION_LOST);
constexpr bool IsSame(std::uint32_t wire_flag, std::uint32_t our_flag) {
  return wire_flag == our_flag;
}
static_assert(IsSame(wire::kFlagForce, KVD_FORCE) && IsSame(wire::kFlagPublic, KVD_PUBLIC) &&
              IsSame(wire::kFlagAddSpecial, KVD_ADD_SPECIAL) &&
              IsSame(wire::kFlagParseSpecial, KVD_PARSE_SPECIAL) &&
              IsSame(wire::kFlagSpecial, KVD_SPECIAL) &&
              IsSame(wire::kFlagAddAssistant, KVD_ADD_ASSISTANT));
static_assert(IsSame(layout::kSequenceEdited, KVD_SEQUENCE_EDITED));
static_assert(sizeof(kvd_sequence_info) == sizeof(wire::SequenceEntry));
static_assert(sizeof(kvd_token_at) == sizeof(TokenAt));

kvd_sequence_info InfoFrom(const wire::SequenceEntry& entry) {
  return {entry.handle,      entry.session,    entry.owner_uid,    entry.owner_pid,
          entry.flags,       entry.cell_count, entry.shared_cells, entry.extent_count,
          entry.delta_count, entry.first_pos,  entry.next_pos,     0,
          entry.age_ms};
}

Result<PosRange> RangeFrom(std::int32_t p0, std::int32_t p1) {
  if (p0 < 0) return Fail(Code::kInvalidArgument, "p0: " + std::to_string(p0) + " is negative");
  return PosRange{Pos{p0}, p1 < 0 ? kPosEnd : Pos{p1}};
}

Status GiveText(const Result<std::string>& text, char** out, std::size_t* out_bytes) {
  if (!text) return std::unexpected(text.error());
  *out = CopyForCaller(text->data(), text->size());
  *out_bytes = text->size();
  return {};
}

Status GiveCells(const Result<std::uint64_t>& cells, std::uint64_t* out) {
  if (!cells) return std::unexpected(cells.error());
  if (out != nullptr) *out = *cells;
  return {};
}

void Give(const ForkInfo& info, kvd_fork_info* out) {
  if (out != nullptr) *out = {info.engine_ns, info.cell_count, info.tokens_replayed};
}

std::string TextOrEmpty(const char* text) { return text == nullptr ? "" : text; }

Result<ConnectOptions> OptionsFrom(const kvd_connect_options* theirs) {
  kvd_connect_options ours;
  kvd_connect_options_init(&ours, sizeof ours);
  if (theirs != nullptr) KVD_CHECK_OK(ReadSized(*theirs, ours));
  ConnectOptions options;
  options.socket_path = TextOrEmpty(ours.socket_path);
  options.daemon_name = TextOrEmpty(ours.daemon_name);
  options.client_name = TextOrEmpty(ours.client_name);
  options.submission_entries = ours.submission_entries;
  options.completion_entries = ours.completion_entries;
  options.request_arena_bytes = ours.request_arena_bytes;
  options.result_arena_bytes = ours.result_arena_bytes;
  options.connect_timeout = std::chrono::milliseconds(ours.connect_timeout_ms);
  options.call_timeout = std::chrono::milliseconds(ours.timeout_ms);
  options.reconnect_timeout = std::chrono::milliseconds(std::max(ours.reconnect_timeout_ms, 0));
  if (ours.wants_map > 1) {
    return Fail(Code::kInvalidArgument,
                "wants_map: " + std::to_string(ours.wants_map) + ", 0 or 1 wanted");
  }
  options.wants_map = ours.wants_map != 0;
  if (ours.no_prefix > 1) {
    return Fail(Code::kInvalidArgument,
                "no_prefix: " + std::to_string(ours.no_prefix) + ", 0 or 1 wanted");
  }
  options.shares_prefixes = ours.no_prefix == 0;
  options.cache_salt = ours.cache_salt;
  return options;
}

}  // namespace

int KeepError(Error error) {
  last_message = std::move(error.message);
  last_code = static_cast<int>(error.code);
  return last_code;
}

Result<std::uint16_t> FlagsFrom(std::uint32_t flags, std::uint32_t allowed) {
  if ((flags & ~allowed) == 0) return static_cast<std::uint16_t>(flags);
  return Fail(Code::kInvalidArgument, "flags: " + std::to_string(flags) + ", of which " +
                                          std::to_string(flags & ~allowed) +
                                          " mean nothing to this call");
}

}  // namespace kvd

using namespace kvd;

const char* kvd_error_message(void) { return last_message.c_str(); }
int kvd_error_code(void) { return last_code; }

const char* kvd_code_name(int code) {
  if (code < 0 || code > KVD_SESSION_LOST) return "unknown";
  return CodeName(static_cast<Code>(code)).data();
}

uint32_t kvd_protocol_version(void) { return wire::kProtocolVersion; }

void kvd_free(void* pointer) { std::free(pointer); }

void kvd_connect_options_init(kvd_connect_options* options, size_t size) {
  kvd_connect_options ours{};
  ours.size = size;
  ours.connect_timeout_ms = 10'000;
  ours.timeout_ms = -1;
  ours.reconnect_timeout_ms = 10'000;
  std::memset(options, 0, size);
  std::memcpy(options, &ours, std::min(size, sizeof ours));
}

int kvd_connect(const kvd_connect_options* options, kvd_client** client) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const ConnectOptions ours, OptionsFrom(options));
    KVD_TRY(Client connected, Client::Connect(ours));
    *client = new kvd_client(std::move(connected));
    return {};
  });
}

void kvd_close(kvd_client* client) { delete client; }

int kvd_renew(kvd_client* client) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    return client->client.Renew();
  });
}

int kvd_session(kvd_client* client, kvd_session_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(info, "info"));
    const SessionInfo& session = client->client.session();
    return WriteSized(kvd_session_info{0, session.session, session.pool_cells, session.vocab_size,
                                       session.daemon_pid},
                      info);
  });
}

int kvd_info(kvd_client* client, kvd_daemon_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(info, "info"));
    KVD_TRY(const wire::InfoReply reply, client->client.Info());
    kvd_daemon_info ours{};
    const auto copy_text = [](auto& to, const auto& from) {
      std::memcpy(to, from, ::strnlen(from, sizeof from - 1));
    };
    copy_text(ours.model_name, reply.model_name);
    copy_text(ours.architecture, reply.architecture);
    copy_text(ours.kernels, reply.kernels);
    copy_text(ours.version, reply.version);
    ours.weight_bytes = reply.weight_bytes;
    ours.pool_cells = reply.pool_cells;
    ours.free_cells = reply.free_cells;
    ours.live_cells = reply.live_cells;
    ours.cell_bytes = reply.cell_bytes;
    ours.uptime_ms = reply.uptime_ms;
    ours.vocab_size = reply.vocab_size;
    ours.context_trained = reply.context_trained;
    ours.layer_count = reply.layer_count;
    ours.embedding_size = reply.embedding_size;
    ours.sequences_live = reply.sequences_live;
    ours.sessions = reply.sessions;
    ours.has_tokenizer = reply.has_tokenizer;
    ours.bos_token = reply.bos_token;
    ours.eos_token = reply.eos_token;
    return WriteSized(ours, info);
  });
}

int kvd_defrag(kvd_client* client, kvd_defrag_report* report) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const wire::DefragReply reply, client->client.Defrag());
    if (report != nullptr) {
      *report = {reply.cells_moved, reply.cells_settled, reply.blocks_freed, reply.bytes_returned,
                 reply.packing_ns,  reply.returning_ns,  reply.settling_ns};
    }
    return {};
  });
}

int kvd_sequence_retain(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                        int* is_retained) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    const Force force = wire_flags != 0 ? Force::kYes : Force::kNo;
    KVD_TRY(const bool stays, client->client.Retain(HandleFrom(sequence), force));
    if (is_retained != nullptr) *is_retained = stays ? 1 : 0;
    return {};
  });
}

int kvd_sequence_pin(kvd_client* client, kvd_sequence sequence, int is_pinned, uint32_t flags) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return client->client.Pin(HandleFrom(sequence), is_pinned != 0,
                              wire_flags != 0 ? Force::kYes : Force::kNo);
  });
}

int kvd_drop_retained(kvd_client* client, uint32_t flags, uint64_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    KVD_TRY(const std::uint64_t dropped,
            client->client.DropRetained(wire_flags != 0 ? Force::kYes : Force::kNo));
    if (count != nullptr) *count = dropped;
    return {};
  });
}

const char* kvd_prefix_limit_name(int limit) {
  return PrefixLimitName(static_cast<PrefixLimit>(limit < 0 || limit > 255 ? 255 : limit)).data();
}

int kvd_ping(kvd_client* client, size_t payload_bytes, uint64_t* nanoseconds) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const RoundTrip round_trip, client->client.Ping(payload_bytes));
    if (nanoseconds != nullptr) *nanoseconds = round_trip.ns;
    return {};
  });
}

int kvd_sequence_create(kvd_client* client, kvd_sequence* sequence) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(sequence, "sequence"));
    KVD_TRY(const SequenceHandle handle, client->client.Create());
    *sequence = static_cast<kvd_sequence>(handle);
    return {};
  });
}

int kvd_sequence_fork(kvd_client* client, kvd_sequence sequence, int32_t cell_count, uint32_t count,
                      kvd_sequence* forks, kvd_fork_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(forks, "forks"));
    ForkInfo fork_info;
    KVD_TRY(const auto handles,
            client->client.Fork(HandleFrom(sequence), cell_count, count, &fork_info));
    std::memcpy(forks, handles.data(), handles.size() * sizeof *forks);
    Give(fork_info, info);
    return {};
  });
}

int kvd_sequence_drop(kvd_client* client, kvd_sequence sequence, uint32_t flags) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return client->client.Drop(HandleFrom(sequence), wire_flags != 0 ? Force::kYes : Force::kNo);
  });
}

int kvd_sequence_copy(kvd_client* client, kvd_sequence source, kvd_sequence destination, int32_t p0,
                      int32_t p1, uint64_t* cells, uint64_t* replayed) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return GiveCells(
        client->client.CopyRange(HandleFrom(source), HandleFrom(destination), range, replayed),
        cells);
  });
}

int kvd_sequence_remove(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        uint64_t* cells, uint64_t* replayed) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return GiveCells(client->client.RemoveRange(HandleFrom(sequence), range, replayed), cells);
  });
}

int kvd_sequence_keep(kvd_client* client, kvd_sequence sequence) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    return client->client.Keep(HandleFrom(sequence));
  });
}

int kvd_sequence_clear(kvd_client* client, kvd_sequence sequence) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    return client->client.Clear(HandleFrom(sequence));
  });
}

int kvd_sequence_add(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                     int32_t delta) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return client->client.Add(HandleFrom(sequence), range, delta);
  });
}

int kvd_sequence_divide(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        int32_t divisor, uint64_t* cells) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_TRY(const PosRange range, RangeFrom(p0, p1));
    return GiveCells(client->client.Divide(HandleFrom(sequence), range, divisor), cells);
  });
}

int kvd_sequence_query(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(info, "info"));
    KVD_TRY(const wire::SequenceEntry entry, client->client.Query(HandleFrom(sequence)));
    *info = InfoFrom(entry);
    return {};
  });
}

int kvd_list(kvd_client* client, kvd_sequence_info** list, size_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    KVD_TRY(const auto entries, client->client.List());
    std::vector<kvd_sequence_info> infos;
    for (const wire::SequenceEntry& entry : entries) infos.push_back(InfoFrom(entry));
    *list = CopyForCaller(infos.data(), infos.size());
    *count = infos.size();
    return {};
  });
}

int kvd_publish(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
                kvd_sequence* snapshot) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE | KVD_PUBLIC));
    KVD_TRY(const SequenceHandle handle,
            client->client.Publish(HandleFrom(sequence), name, wire_flags));
    if (snapshot != nullptr) *snapshot = static_cast<kvd_sequence>(handle);
    return {};
  });
}

int kvd_unpublish(kvd_client* client, const char* name, uint32_t flags) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_FORCE));
    return client->client.Unpublish(name, wire_flags != 0 ? Force::kYes : Force::kNo);
  });
}

int kvd_attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(name, "name"));
    KVD_CHECK_OK(NotNull(sequence, "sequence"));
    ForkInfo fork_info;
    KVD_TRY(const SequenceHandle handle, client->client.Attach(name, &fork_info));
    *sequence = static_cast<kvd_sequence>(handle);
    Give(fork_info, info);
    return {};
  });
}

int kvd_snapshots(kvd_client* client, kvd_snapshot_info** list, size_t* count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(list, "list"));
    KVD_CHECK_OK(NotNull(count, "count"));
    KVD_TRY(const auto snapshots, client->client.Snapshots());
    std::vector<kvd_snapshot_info> infos;
    for (const Snapshot& snapshot : snapshots) {
      kvd_snapshot_info info{};
      std::memcpy(info.name, snapshot.name.data(),
                  std::min(snapshot.name.size(), sizeof info.name - 1));
      info.sequence = static_cast<kvd_sequence>(snapshot.sequence);
      info.owner_uid = snapshot.owner_uid;
      info.is_public = snapshot.is_public ? 1 : 0;
      info.cell_count = snapshot.cell_count;
      info.age_ms = snapshot.age_ms;
      infos.push_back(info);
    }
    *list = CopyForCaller(infos.data(), infos.size());
    *count = infos.size();
    return {};
  });
}

int kvd_tokenize(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                 kvd_token** tokens, size_t* token_count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(token_count, "token_count"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_ADD_SPECIAL | KVD_PARSE_SPECIAL));
    KVD_TRY(const auto list,
            client->client.Tokenize(std::string_view(text, text_bytes), wire_flags));
    *tokens = CopyForCaller(list.data(), list.size());
    *token_count = list.size();
    return {};
  });
}

int kvd_detokenize(kvd_client* client, const kvd_token* tokens, size_t token_count, uint32_t flags,
                   char** text, size_t* text_bytes) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    if (token_count != 0) KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_SPECIAL));
    return GiveText(client->client.Detokenize({tokens, token_count}, wire_flags), text, text_bytes);
  });
}

int kvd_chat(kvd_client* client, const kvd_chat_message* messages, size_t message_count,
             uint32_t flags, char** text, size_t* text_bytes) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(messages, "messages"));
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_ADD_ASSISTANT));
    std::vector<wire::ChatTurn> turns;
    for (std::size_t i = 0; i < message_count; ++i) {
      KVD_CHECK_OK(NotNull(messages[i].role, "role"));
      KVD_CHECK_OK(NotNull(messages[i].content, "content"));
      turns.push_back({messages[i].role, messages[i].content});
    }
    return GiveText(client->client.Chat(turns, wire_flags), text, text_bytes);
  });
}

int kvd_read_tokens(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                    int32_t cell_count, kvd_token_at** tokens, size_t* token_count) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(token_count, "token_count"));
    KVD_TRY(const auto list,
            client->client.ReadTokens(HandleFrom(sequence), first_cell, cell_count));
    *tokens = CopyForCaller(reinterpret_cast<const kvd_token_at*>(list.data()), list.size());
    *token_count = list.size();
    return {};
  });
}

int kvd_read_text(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                  size_t* text_bytes) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_SPECIAL));
    return GiveText(client->client.ReadText(HandleFrom(sequence), wire_flags), text, text_bytes);
  });
}
