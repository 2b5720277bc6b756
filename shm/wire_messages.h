// The messages between a client and the daemon, as plain structs: hello and welcome on the socket,
// submissions and completions in the rings. shm/verb_table.h lists the verbs and, for each verb,
// the arguments and replies that these structs and the arenas contain.
//
//   client                                   daemon
//     │ ── Hello ─────────────────────────────► │   once, on the socket
//     │ ◄───────────── Welcome + descriptors ── │   requests, results, and the map on request
//     │                                         │   (SCM_RIGHTS); none when the hello is refused
//     │ ── Submission + payload (requests) ───► │   doorbell byte on the socket only if
//     │                                         │   daemon_sleeps is not 0
//     │ ◄── Completion + output (results) ───── │   doorbell byte only if client_sleeps is not 0
//
// Reconnect: a client that has lost its connection or its daemon sends a new hello with its session
// token. The daemon resumes the same session with new segments. The client then retries the
// requests that have no final answer, in their original order, with their original ids and with
// kFlagRetry. The daemon repeats the answer of a request that it has applied and executes the other
// requests. A client that will not reconnect writes kGoodbyeBell before it closes the connection.
// If the connection closes without a kGoodbyeBell, the daemon keeps the session's sequences for a
// limited time.
//
// A request is one Submission. The request id of a Submission is larger than all earlier request
// ids of the session. The answer to a request is zero or more Completions with kMore, followed by
// one Completion without kMore. If Completion::code is not kOk, the output is the error message
// (UTF-8). Metadata requests of one session are applied in order. Computing requests (kDecode,
// kGenerate, kDivide, kEmbed, kEncode, kRank) run concurrently with metadata requests and may end
// in another order than they were submitted.
//
// kProtocolVersion is raised with every incompatible change. The daemon refuses a hello with
// another version; the error names both versions. The versions are:
//   1  first protocol
//   2  prompts share prefixes: salts, flags, verbs 29 to 31, fields in replies
//   3  sessions can be resumed, requests can be retried
//   4  a daemon that stops does not answer clients that reconnect: kHelloReturns
//   5  verbs 37 to 39 carry saved states instead of files of llama.cpp
//   6  kEmbed has several texts and a pooling; verb 44
//   7  verb 25 hands out chat templates in place of formatted chats; kGenerate has a chain of
//      samplers and breakers; kEmbed says whether rows were scaled
//   8  kGenerate has a grammar and triggers; the hello names a tenant and how long its session
//      outlives its process; sequences expire
//   9  kInfo has the progress of reading the weights; verb 47 reports the choices of products
//   10 kGenerate may leave out the last token of an answer
//   11 an answer may have the code kTooLarge
//   12 kGenerate waits for room in the pool, and may end an answer because there is none
//   13 the cells of kDecode's reply are those of the sequence
#pragma once

#include <cstdint>
#include <type_traits>

#include "shm/segment_layout.h"

namespace kvd::wire {

inline constexpr std::uint32_t kProtocolVersion = 13;
inline constexpr std::uint64_t kHelloMagic = 0x314f4c4c4544564bull;    // "KVDELLO1"
inline constexpr std::uint64_t kWelcomeMagic = 0x31434c455744564bull;  // "KVDWELC1"

// Limits of the ring and arena sizes in a hello. Entry counts are powers of two, arena sizes are
// multiples of 4096.
inline constexpr std::uint32_t kEntriesMin = 8;
inline constexpr std::uint32_t kEntriesMax = 4096;
inline constexpr std::uint32_t kEntriesDefault = 256;
inline constexpr std::uint64_t kArenaBytesMin = 64u << 10;
inline constexpr std::uint64_t kArenaBytesMax = 1ull << 30;
inline constexpr std::uint64_t kRequestArenaBytesDefault = 1u << 20;
inline constexpr std::uint64_t kResultArenaBytesDefault = 4u << 20;

// Fixed limits of a request. The number of tokens is limited by the cells of the pool.
// Largest number of bytes of a text in kTokenize and in answers, and of the output of
// kChatTemplates.
inline constexpr std::uint32_t kTextBytesMax = 16u << 20;
inline constexpr std::uint32_t kUploadPieceBytesMax = 16u << 20;
inline constexpr std::uint32_t kEmbedTextsMax = 4096;           // texts of a kEmbed
inline constexpr std::uint32_t kEmbedTokensMax = 1u << 20;      // tokens of all texts of a kEmbed
inline constexpr std::uint32_t kRankDocumentsMax = 4096;        // documents of a kRank
inline constexpr std::uint32_t kRankTextBytesMax = 256u << 10;  // query or document of a kRank
// Largest number of bytes of a payload of token lists: the number of lists, the length of each
// list, and the tokens.
inline constexpr std::uint32_t kTokenListsBytesMax = 4 * (1 + kEmbedTextsMax + kEmbedTokensMax);

inline constexpr std::uint32_t kOutliveSecondsMax = 604'800;  // a week
// Largest time after which a sequence expires: a year.
inline constexpr std::uint32_t kTtlSecondsMax = 31'536'000;

inline constexpr std::uint8_t kBell = 1;
inline constexpr std::uint8_t kGoodbyeBell = 2;

enum HelloFlags : std::uint32_t {
  kHelloMap = 1u << 0,       // the daemon also sends the descriptor of the owner's live map
  kHelloNoPrefix = 1u << 1,  // prompts of this session reuse no tokens of other sequences
  // The client reconnects when the daemon is restarted. A daemon that stops leaves this client's
  // requests in flight unanswered, and the next daemon resumes these requests. For a client without
  // kHelloReturns, a daemon that stops answers the requests in flight with kCancelled.
  kHelloReturns = 1u << 2,
};
inline constexpr std::uint32_t kHelloFlagsAll = 7;

struct Hello {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t flags;               // HelloFlags
  std::uint32_t submission_entries;  // number of entries of the submission ring; 0: default
  // Number of entries of the completion ring, at least twice the submission entries; 0: default.
  std::uint32_t completion_entries;
  std::uint64_t request_arena_bytes;  // size of the request arena; 0: default
  std::uint64_t result_arena_bytes;   // size of the result arena; 0: default
  std::uint8_t session_token[16];  // token of the session to resume; all zero: start a new session
  // Name of the client, shown in logs and lists; printable ASCII, zero padded.
  char name[32];
  // Prompts reuse tokens only of sequences with the same salt. 0: the owner's default namespace.
  std::uint64_t cache_salt;
  // The tenant of the session's uid to which the session belongs; all zero: the uid itself. Only
  // the daemon's --tenant-uid may name a tenant.
  std::uint8_t tenant[16];
  // Seconds for which the session and its requests stay after the connection is lost, also if the
  // client's process has ended; 0: the session ends with its process.
  std::uint32_t outlive_seconds;
  std::uint8_t reserved[12];
};
static_assert(sizeof(Hello) == 128 && std::is_standard_layout_v<Hello>);

struct Welcome {
  std::uint64_t magic;
  std::uint32_t version;  // the daemon's protocol version
  // A kvd::Code; if the code is not kOk, the hello is refused, and `message` gives the reason.
  std::uint8_t code;
  // 2: descriptors of requests and results; 3: also of the live map (kHelloMap).
  std::uint8_t descriptor_count;
  std::uint16_t reserved0;
  std::uint64_t session;
  // Token with which the client can resume this session later; all zero: the session cannot be
  // resumed.
  std::uint8_t session_token[16];
  std::uint64_t last_request;  // the largest request id that the session has recorded
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
  // kDecode, kGenerate: the daemon sends pieces of kind kPieceProgress while it computes the
  // prompt.
  kFlagProgress = 1u << 6,
  kFlagNormalize = 1u << 7,
  kFlagNoPrefix = 1u << 8,  // kDecode, kGenerate: the prompt reuses no tokens of other sequences
  // kCreate, kFork, kPublish, kSetLife: the sequence is ephemeral (layout::kSequenceEphemeral).
  kFlagEphemeral = 1u << 9,
  // Allowed for every verb: the request may have been applied before, completely or in part.
  kFlagRetry = 1u << 15,
};
inline constexpr std::uint16_t kSubmissionFlagsAll = ((1u << 10) - 1) | kFlagRetry;

struct Submission {
  std::uint64_t request;
  std::uint16_t verb;
  std::uint16_t flags;
  std::uint32_t payload_bytes;
  std::uint64_t payload_offset;  // offset from the start of the request arena
  std::uint64_t sequence;
  std::uint64_t sequence2;
  std::int32_t p0;  // begin of a range of positions; negative: 0
  std::int32_t p1;  // end of a range of positions; negative: the range has no end
  std::int64_t argument;
  // With kFlagRetry, the part of the answer that the client has already received. kGenerate: the
  // number of tokens, and the last token (0 if none). kDecode with LogitsWanted::kAll: the number
  // of rows. All other requests: 0.
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
  // Position of the output in the output stream. The output's offset in the arena is output_cursor
  // % arena bytes; an output never wraps around the arena's end. To release the output, the client
  // stores output_cursor + output_bytes, rounded up to kOutputAlignment, in output_released.
  std::uint64_t output_cursor;
  std::uint64_t sequence;
  std::int64_t value0;
  std::int64_t value1;
  std::int64_t value2;
  std::uint64_t reserved;
};
static_assert(sizeof(Completion) == 64 && std::is_standard_layout_v<Completion>);
inline constexpr std::uint64_t kOutputAlignment = 64;

}  // namespace kvd::wire
