// The messages between a client and the daemon, as plain structs: hello and welcome on the socket,
// submissions and completions in the rings. Which verbs there are, and what they carry in these and
// in the arenas, is shm/verb_table.h.
//
//   client                                   daemon
//     │ ── Hello ─────────────────────────────► │   once, on the socket
//     │ ◄───────────── Welcome + descriptors ── │   requests, results, map if asked for
//     (SCM_RIGHTS); none when refused
//     │ ── Submission + payload (requests) ───► │   doorbell byte on the socket only if
//     daemon_sleeps
//     │ ◄── Completion + output (results) ───── │   doorbell byte only if client_sleeps
//
// A client that has lost its connection, or its daemon, says hello again with the token of its
// session. It gets the same session with new segments, and sends the requests that it has no final
// answer of again, in their order, with their ids and kFlagRetry: what was applied is answered as
// it was then, the rest is done. A client that goes for good writes kGoodbyeBell before it hangs
// up; the sequences of one that does not wait for it a while.
//
// A request is one Submission with a fresh request id, larger than all before it; its answer is zero or more Completions with
// kMore and one without. code != kOk: the output is the error's message (UTF-8). Requests of one
// session on metadata are applied in order; computing requests (kDecode, kGenerate, kDivide, kEmbed, kEncode) run
// beside them and may end in another order.
//
// kProtocolVersion is raised with every incompatible change; hello refuses another one by naming
// both:
//   1  first protocol
//   2  prompts begin with what other sequences hold: salts, flags, verbs 29 to 31, what replies say
//   3  sessions are taken up again, requests sent again
//   4  clients that come back are not answered by a daemon that stops: kHelloReturns
//   5  verbs 37 to 39 carry saved states instead of files of llama.cpp
#pragma once

#include <cstdint>
#include <type_traits>

#include "shm/segment_layout.h"

namespace kvd::wire {

inline constexpr std::uint32_t kProtocolVersion = 5;
inline constexpr std::uint64_t kHelloMagic = 0x314f4c4c4544564bull;    // "KVDELLO1"
inline constexpr std::uint64_t kWelcomeMagic = 0x31434c455744564bull;  // "KVDWELC1"

// Ring and arena sizes that a hello may ask for: powers of two (entries), multiples of 4096
// (arenas).
inline constexpr std::uint32_t kEntriesMin = 8;
inline constexpr std::uint32_t kEntriesMax = 4096;
inline constexpr std::uint32_t kEntriesDefault = 256;
inline constexpr std::uint64_t kArenaBytesMin = 64u << 10;
inline constexpr std::uint64_t kArenaBytesMax = 1ull << 30;
inline constexpr std::uint64_t kRequestArenaBytesDefault = 1u << 20;
inline constexpr std::uint64_t kResultArenaBytesDefault = 4u << 20;

// What a request may carry, beside what its verb says; tokens: as many as the pool has cells.
inline constexpr std::uint32_t kTextBytesMax = 16u << 20;  // kTokenize, kChat; also text in answers
inline constexpr std::uint32_t kChatMessagesMax = 4096;
inline constexpr std::uint32_t kUploadPieceBytesMax = 16u << 20;

inline constexpr std::uint8_t kBell = 1;
inline constexpr std::uint8_t kGoodbyeBell = 2;

enum HelloFlags : std::uint32_t {
  kHelloMap = 1u << 0,       // send the descriptor of this uid's map too
  kHelloNoPrefix = 1u << 1,  // prompts of this session take nothing from other sequences
  // The client comes back by itself: what it has in flight when the daemon stops is not answered,
  // and goes on with the next one. Others are answered kCancelled.
  kHelloReturns = 1u << 2,
};
inline constexpr std::uint32_t kHelloFlagsAll = 7;

struct Hello {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t flags;                // HelloFlags
  std::uint32_t submission_entries;   // 0: default
  std::uint32_t completion_entries;   // 0: default; at least twice the submission entries
  std::uint64_t request_arena_bytes;  // 0: default
  std::uint64_t result_arena_bytes;   // 0: default
  std::uint8_t
      session_token[16];  // of an earlier session that this one takes up again; zero: a new one
  char name[32];          // shown in logs and lists; printable ASCII, zero padded
  // Prompts take the beginnings of sequences with the same salt alone; 0: the uid's own namespace.
  std::uint64_t cache_salt;
  std::uint8_t reserved[32];
};
static_assert(sizeof(Hello) == 128 && std::is_standard_layout_v<Hello>);

struct Welcome {
  std::uint64_t magic;
  std::uint32_t version;  // the daemon's
  std::uint8_t code;      // kvd::Code; not kOk: refused, message says why, no descriptors come
  std::uint8_t descriptor_count;  // 2: requests, results; 3: and the map, if hello asked for it
  std::uint16_t reserved0;
  std::uint64_t session;
  std::uint8_t session_token[16];  // keep it to take the session up again; zero: it cannot be
  std::uint64_t last_request;      // largest request id that is remembered of the session
  std::uint32_t submission_entries;
  std::uint32_t completion_entries;
  std::uint64_t request_segment_bytes;
  std::uint64_t result_segment_bytes;
  std::uint32_t vocab_size;
  std::uint32_t daemon_pid;
  std::uint64_t pool_cells;
  char message[160];  // zero terminated
};
static_assert(sizeof(Welcome) == 248 && std::is_standard_layout_v<Welcome>);

enum SubmissionFlags : std::uint16_t {
  kFlagForce = 1u << 0,
  kFlagPublic = 1u << 1,
  kFlagAddSpecial = 1u << 2,
  kFlagParseSpecial = 1u << 3,
  kFlagSpecial = 1u << 4,
  kFlagAddAssistant = 1u << 5,
  kFlagProgress =
      1u << 6,  // kDecode, kGenerate: pieces of kind kPieceProgress while the prompt is computed
  kFlagNormalize = 1u << 7,
  kFlagNoPrefix = 1u << 8,  // kDecode, kGenerate: nothing is taken from other sequences
  // Of every verb: the request may have been applied already, or in part.
  kFlagRetry = 1u << 15,
};
inline constexpr std::uint16_t kSubmissionFlagsAll = ((1u << 9) - 1) | kFlagRetry;

struct Submission {
  std::uint64_t request;
  std::uint16_t verb;
  std::uint16_t flags;
  std::uint32_t payload_bytes;
  std::uint64_t payload_offset;  // in the request arena
  std::uint64_t sequence;
  std::uint64_t sequence2;
  std::int32_t p0;  // ranges: negative begin is 0
  std::int32_t p1;  // ranges: negative end is open
  std::int64_t argument;
  // kFlagRetry: what the client has of the answer. kGenerate: tokens, and the last of them (0
  // without any); kDecode with LogitsWanted::kAll: rows. Else 0.
  std::uint32_t received;
  std::int32_t last_token;
};
static_assert(sizeof(Submission) == 64 && std::is_standard_layout_v<Submission>);

enum CompletionFlags : std::uint8_t { kMore = 1u << 0 };

struct Completion {
  std::uint64_t request;
  std::uint16_t verb;
  std::uint8_t code;
  std::uint8_t flags;
  std::uint32_t output_bytes;
  std::uint64_t
      output_cursor;  // position in the output stream: arena offset is cursor % arena bytes, never
                      // wraps inside.
  // Giving back is up to and including cursor + output_bytes rounded up to kOutputAlignment
  std::uint64_t sequence;
  std::int64_t value0;
  std::int64_t value1;
  std::int64_t value2;
  std::uint64_t reserved;
};
static_assert(sizeof(Completion) == 64 && std::is_standard_layout_v<Completion>);
inline constexpr std::uint64_t kOutputAlignment = 64;

}  // namespace kvd::wire
