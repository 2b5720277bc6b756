// The C interface: a thin layer over the typed calls of Client. Each function checks its arguments,
// makes one call and copies the reply to its outputs. This file has the functions for errors,
// connections and the daemon's information; the functions of the other verbs are in the files
// kvd_*.cc.
#include "client/kvd.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "client/c_api.h"

namespace kvd {
namespace {

thread_local std::string last_message;
thread_local int last_code = KVD_OK;

static_assert(static_cast<int>(Code::kWindowLost) == KVD_WINDOW_LOST);
static_assert(static_cast<int>(Code::kSessionLost) == KVD_SESSION_LOST);
static_assert(static_cast<int>(Code::kTooLarge) == KVD_TOO_LARGE);
constexpr bool IsSame(std::uint32_t wire_flag, std::uint32_t our_flag) {
  return wire_flag == our_flag;
}
static_assert(IsSame(wire::kFlagForce, KVD_FORCE) && IsSame(wire::kFlagPublic, KVD_PUBLIC) &&
              IsSame(wire::kFlagAddSpecial, KVD_ADD_SPECIAL) &&
              IsSame(wire::kFlagParseSpecial, KVD_PARSE_SPECIAL) &&
              IsSame(wire::kFlagEphemeral, KVD_EPHEMERAL) &&
              IsSame(wire::kFlagSpecial, KVD_SPECIAL));
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
  // 0 is the default of each limit.
  if (ours.connect_timeout_ms != 0) {
    options.connect_timeout = std::chrono::milliseconds(ours.connect_timeout_ms);
  }
  if (ours.timeout_ms != 0) options.call_timeout = std::chrono::milliseconds(ours.timeout_ms);
  if (ours.reconnect_timeout_ms != 0) {
    options.reconnect_timeout = std::chrono::milliseconds(std::max(ours.reconnect_timeout_ms, 0));
  }
  if (ours.wants_map > 1) {
    return Fail(Code::kInvalidArgument, "wants_map: ", ours.wants_map, ", must be 0 or 1");
  }
  options.wants_map = ours.wants_map != 0;
  if (ours.no_prefix > 1) {
    return Fail(Code::kInvalidArgument, "no_prefix: ", ours.no_prefix, ", must be 0 or 1");
  }
  options.shares_prefixes = ours.no_prefix == 0;
  options.cache_salt = ours.cache_salt;
  std::ranges::copy(ours.tenant, options.tenant.begin());
  std::ranges::copy(ours.session_token, options.session_token.begin());
  options.outlive_seconds = ours.outlive_seconds;
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
  return Fail(Code::kInvalidArgument, "flags: ", flags, ": unknown bits ", flags & ~allowed,
              " for this call");
}

Result<NewSequenceOptions> NewSequenceFrom(const kvd_sequence_options* theirs,
                                           std::uint32_t allowed) {
  kvd_sequence_options ours{};
  if (theirs != nullptr) KVD_CHECK_OK(ReadSized(*theirs, ours));
  KVD_TRY(const std::uint16_t flags, FlagsFrom(ours.flags, allowed));
  KVD_CHECK_OK(CheckTtl(ours.ttl_seconds));
  return NewSequenceOptions{.flags = flags, .ttl_seconds = ours.ttl_seconds};
}

Status CheckTtl(std::uint32_t ttl_seconds) {
  if (ttl_seconds <= wire::kTtlSecondsMax) return {};
  return Fail(Code::kInvalidArgument, "ttl_seconds: ", ttl_seconds, ", at most ",
              wire::kTtlSecondsMax);
}

}  // namespace kvd

using namespace kvd;

const char* kvd_error_message(void) { return last_message.c_str(); }

int kvd_error_code(void) { return last_code; }

const char* kvd_code_name(int code) {
  if (code < 0 || code > KVD_TOO_LARGE) return "unknown";
  return CodeName(static_cast<Code>(code)).data();
}

uint32_t kvd_protocol_version(void) { return wire::kProtocolVersion; }

const char* kvd_version(void) { return KVD_VERSION_TEXT; }

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

int kvd_leave(kvd_client* client) {
  return CallBody([&]() -> Status {
    KVD_CHECK_OK(NotNull(client, "client"));
    return client->client.Leave();
  });
}

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
    kvd_session_info ours{
        0, session.session, session.pool_cells, session.vocab_size, session.daemon_pid, {}};
    std::ranges::copy(session.session_token, ours.session_token);
    return WriteSized(ours, info);
  });
}

int kvd_info(kvd_client* client, kvd_daemon_info* info, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(info, "info"));
    return Ask(client, later, wire::InfoArgs{}, {}, 0, [info](const auto& found) -> Status {
      const wire::InfoReply& reply = found.record;
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
      ours.requests_waiting = reply.requests_waiting;
      ours.requests_computing = reply.requests_computing;
      ours.requests_parked = reply.requests_parked;
      ours.tokens_given_back = reply.tokens_given_back;
      return WriteSized(ours, info);
    });
  });
}

int kvd_defrag(kvd_client* client, kvd_defrag_report* report, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    return Ask(client, later, wire::DefragArgs{}, {}, 0, [report](const auto& found) -> Status {
      const wire::DefragReply& reply = found.record;
      if (report != nullptr) {
        *report = {reply.cells_moved, reply.cells_settled, reply.blocks_freed, reply.bytes_returned,
                   reply.packing_ns,  reply.returning_ns,  reply.settling_ns};
      }
      return {};
    });
  });
}

int kvd_ping(kvd_client* client, size_t payload_bytes, uint64_t* nanoseconds, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    if (payload_bytes > wire::kPingBytesMax) {
      return Fail(Code::kInvalidArgument, "payload_bytes: ", payload_bytes, ", at most ",
                  wire::kPingBytesMax);
    }
    const std::vector<std::byte> sent(payload_bytes, std::byte{0x5a});
    const std::span<const std::byte> payload(sent);
    const auto begin = std::chrono::steady_clock::now();
    return Ask(client, later, wire::PingArgs{}, PayloadOf(payload), 0,
               [=](const wire::PingReply& reply) -> Status {
                 const auto elapsed = std::chrono::steady_clock::now() - begin;
                 if (reply.bytes.size() != payload_bytes ||
                     std::ranges::count(reply.bytes, std::byte{0x5a}) != std::ssize(reply.bytes)) {
                   return Fail(Code::kCorrupt, "ping: the received bytes differ from those sent");
                 }
                 if (nanoseconds != nullptr) {
                   *nanoseconds =
                       static_cast<std::uint64_t>(std::chrono::nanoseconds(elapsed).count());
                 }
                 return {};
               });
  });
}

const char* kvd_prefix_limit_name(int limit) {
  return PrefixLimitName(static_cast<PrefixLimit>(limit < 0 || limit > 255 ? 255 : limit)).data();
}
