// Every message between a client and the daemon, as plain structs: hello and welcome on the socket,
// submissions and completions in the rings, and the payloads that lie in the arenas.
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

#include "shm/prefix_reuse.h"
#include "shm/segment_layout.h"
#include "shm/step_parts.h"

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

// Numbers are sent: append only. Each verb: what it takes from the submission and its payload;
// then, after "out", what the last completion carries, in `sequence`, value0, value1 and its
// output. "In pieces": with kMore before the last.
enum class Verb : std::uint16_t {
  // payload: at most 4096 bytes; out: the same bytes
  kPing = 1,
  // out: InfoReply
  kInfo = 2,
  // argument: salt of its namespace, 0: the session's; out: sequence
  kCreate = 3,
  // sequence, p0 = cells to take or -1 for all, argument = how many (1..kForksMax);
  // out: u64 handles[n], value0 = ns spent in the engine, value1 = cells in each, value2 = tokens
  // replayed (recurrent models, where no checkpoint is at that cell)
  kFork = 4,
  // sequence; kFlagForce: another session's of the same uid
  kDrop = 5,
  // sequence (source), sequence2 (destination), p0, p1; out: value0 = cells, value1 = tokens replayed
  kCopyRange = 6,
  // sequence, p0, p1; out: value0 = cells, value1 = tokens replayed
  kRemoveRange = 7,
  // sequence: drops this session's others
  kKeep = 8,
  // sequence
  kClear = 9,
  // sequence, p0, p1, argument = delta
  kAdd = 10,
  // sequence, p0, p1, argument = divisor; out: value0 = cells rewritten
  kDivide = 11,
  // sequence; out: SequenceEntry
  kQuery = 12,
  // sequence, p0 = position of the first token, argument = LogitsWanted; payload: i32 tokens[];
  // out, in pieces: f32 logits[rows][vocab], value0 = cells computed by now, value1 = first row,
  // value2 = PackReuse. kFlagNoPrefix.
  kDecode = 13,
  // sequence, p0 = position of the first token or -1 for the next one; payload: GenerateParams and
  // lists; pieces: GeneratePiece; out: GenerateResult. kFlagNoPrefix.
  kGenerate = 14,
  // argument = request id of this session, which ends kCancelled; out: value0 = 1 if it was found
  kCancel = 15,
  // sequence, p0 = first cell, argument = count or -1; out, in pieces: {i32 token, i32 pos}[]
  kReadTokens = 16,
  // sequence; kFlagSpecial: special tokens are shown; out, in pieces: UTF-8 text of all its tokens
  kReadText = 17,
  // out, in pieces: SequenceEntry[] that the caller may see
  kList = 18,
  // sequence; payload: name; kFlagPublic, kFlagForce (replace); out: sequence of the snapshot
  kPublish = 19,
  // payload: name
  kUnpublish = 20,
  // payload: name; forks the snapshot; out: sequence, value0 = ns in the engine, value1 = cells
  kAttach = 21,
  // out: SnapshotEntry[]
  kSnapshots = 22,
  // payload: text; kFlagAddSpecial, kFlagParseSpecial; out: i32 tokens[]
  kTokenize = 23,
  // payload: i32 tokens[]; kFlagSpecial: special tokens are shown; out: text
  kDetokenize = 24,
  // payload: ChatMessage records; kFlagAddAssistant; out: text by the model's template, to be
  // tokenized with kFlagParseSpecial
  kChat = 25,
  // out: DefragReply; between the steps of others. kBusy while another one is asked for.
  kDefrag = 26,
  // payload: i32 tokens[] of a text; kFlagNormalize: rows of length 1; out: f32 rows[value0][value1]
  kEmbed = 27,
  // sequence without cells; payload: i32 tokens[] of the text that its decoder attends to; out:
  // value0 = tokens read, value1 = the token that decoding starts with, or -1
  kEncode = 28,
  // sequence: lets it go as if its session had ended; out: value0 = 1: it is retained, 0: dropped
  kRetain = 29,
  // sequence, argument = 1: never evicted, 0: like others
  kPin = 30,
  // drops this uid's retained sequences; kFlagForce: pinned ones too; out: value0 = how many
  kDropRetained = 31,
  // The five below: kUnsupported where the daemon has no --store.
  // sequence, argument = SaveBits; payload: name, at most 63 bytes (none with kSaveSizeOnly);
  // kFlagForce: replaces that name; out: value0 = bytes of the file (0 with kSaveSizeOnly), value1 =
  // bytes that it has if nothing is packed, value2 = cells. Others go on meanwhile, also with the
  // sequence.
  kSave = 32,
  // payload: name; out: value0 = sequences, which are this session's; LoadedEntry[value0] | i32
  // tokens of those of which tokens alone were saved, to be decoded
  kLoad = 33,
  // out, in pieces: SavedEntry[] of this uid
  kSaved = 34,
  // payload: name
  kRemoveSaved = 35,
  // kSave of all of this session's sequences, by handle
  kSaveAll = 36,
  // payload: ExportStateParams, u64 handles[] (none: all of the session's that have cells); out, in
  // pieces: a saved state of them (state_form/state_layout.h), value0 = bytes of a whole one
  kExportState = 37,
  // argument = bytes of the state sent before, 0 starts anew; payload: the next bytes of a saved
  // state, kept for kImportState; out: value0 = bytes kept
  kUploadState = 38,
  // makes sequences of the state that was sent, which is forgotten then, as kLoad does of a file; none
  // of their cells counts as computed by this model; out: as kLoad
  kImportState = 39,
  // out: CacheReply
  kCache = 40,
  // out: ProfileReply: where the time of steps went since the daemon started
  kProfile = 41,
};
inline constexpr std::uint16_t kVerbLast = 41;

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

enum SaveBits : std::int64_t {
  kSaveNoLogits = 1 << 0,
  kSaveTokensOnly = 1 << 1,  // no cells, states and logits
  kSaveUnpacked = 1 << 2,    // larger and faster
  kSaveQ8Rows = 1 << 3,      // K and V as q8_0
  kSaveSizeOnly = 1 << 4,    // nothing is saved
};
inline constexpr std::int64_t kSaveBitsAll = (1 << 5) - 1;

enum class LogitsWanted : std::int64_t { kNone = 0, kLast = 1, kAll = 2 };

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

// -------------------------------------------------------------------------------------- payloads

enum GenerateFlags : std::uint32_t {
  kIgnoreEos =
      1u << 0,        // end-of-generation tokens are never sampled (their logits become -infinity)
  kNoText = 1u << 1,  // pieces carry tokens only (always so without a tokenizer)
  kShowSpecial = 1u << 2,  // special tokens appear in the text
  // No prompt: the first token is drawn from the logits of the sequence's last one.
  // The logits are those kept with the sequence (recurrent models), or its last token is computed
  // once more beside it.
  kContinue = 1u << 3,
  // Goes on with the sampler that drew the sequence's last tokens: the temperature and all behind it
  // up to repeat_last, seed, biases and kIgnoreEos are its own, those given here are ignored.
  kResumeSampler = 1u << 4,
};
inline constexpr std::uint32_t kGenerateFlagsAll = (1u << 5) - 1;
inline constexpr std::uint32_t kStopsMax = 16;
inline constexpr std::uint32_t kStopBytesMax = 256;  // each; at least 1, valid UTF-8
inline constexpr std::uint32_t kBiasesMax = 1024;
inline constexpr std::uint32_t kLogprobsMax = 64;
inline constexpr float kBiasMax = 1000.0f;  // |bias|, or -infinity to forbid a token

// Payload of kGenerate: GenerateParams | i32 tokens[token_count] | LogitBias[bias_count] |
// StopString[stop_count] (each a u32 byte count and the bytes, unpadded).
struct GenerateParams {
  std::uint32_t token_count;  // prompt tokens to append first; at least 1, with kContinue 0
  std::int32_t
      predict_max;     // tokens to sample; 0: only compute the prompt; -1: until an end token or a
                       // full pool
  float temperature;   // 0: greedy; >= 0
  std::int32_t top_k;  // 0: off
  float top_p;         // (0, 1]; 1: off
  float min_p;         // [0, 1]; 0: off
  float typical_p;     // (0, 1]; 1: off
  float repeat_penalty;         // > 0; 1: off
  float presence_penalty;       // [-2, 2]; 0: off
  float frequency_penalty;      // [-2, 2]; 0: off
  std::int32_t repeat_last;     // tokens looked back at: 0 off, -1 whole sequence
  std::uint32_t logprob_count;  // top-n log-probabilities with each token, 0..kLogprobsMax
  std::uint64_t seed;           // 0: the daemon draws one and reports it
  std::uint32_t flags;          // GenerateFlags
  std::uint32_t bias_count;
  std::uint32_t stop_count;
  std::uint32_t stop_bytes;  // of all StopString records together
};
static_assert(sizeof(GenerateParams) == 72 && std::is_standard_layout_v<GenerateParams>);

struct LogitBias {
  std::int32_t token;
  float bias;
};
static_assert(sizeof(LogitBias) == 8);

// Output of a kGenerate or kDecode piece (kMore):
//   kPieceProgress: nothing behind it; done and total are prompt tokens
//   kPieceTokens:   GeneratePiece | i32 tokens[token_count] | text[text_bytes], padded to 4 |
//   TokenLogprob[logprob_count]
enum PieceKind : std::uint32_t { kPieceProgress = 1, kPieceTokens = 2 };
struct GeneratePiece {
  std::uint32_t kind;
  std::uint32_t token_count;
  std::uint32_t text_bytes;
  std::uint32_t logprob_count;  // records: for each token first its own, then the top n
  std::uint64_t done;
  std::uint64_t total;
};
static_assert(sizeof(GeneratePiece) == 32);

struct TokenLogprob {
  std::int32_t token;
  float logprob;  // natural logarithm, of the distribution before temperature and truncation
};
static_assert(sizeof(TokenLogprob) == 8);

enum FinishReason : std::uint32_t { kFinishEnd = 1, kFinishStop = 2, kFinishLength = 3 };

// Output of the last completion of a kGenerate. The tail of the text that stop-string matching had
// held back precedes it as a piece.
struct GenerateResult {
  std::uint64_t seed;             // used
  std::uint32_t finish;           // FinishReason
  std::uint32_t prompt_reused;    // cells the sequence already held
  std::uint32_t prompt_computed;  // prompt tokens computed: those that were not shared
  std::uint32_t predicted;  // tokens sampled; every one of them is committed, the last included
  std::uint64_t prompt_ns;
  std::uint64_t predict_ns;
  std::uint32_t prompt_shared;  // prompt tokens taken from another sequence
  std::uint8_t shared_origin;   // PrefixOrigin
  std::uint8_t share_limit;     // PrefixLimit: why not more
  std::uint16_t reserved;
};
static_assert(sizeof(GenerateResult) == 48);

struct SequenceEntry {
  std::uint64_t handle;
  std::uint64_t session;
  std::uint32_t owner_uid;
  std::uint32_t owner_pid;  // 0 when unknown
  std::uint32_t flags;      // layout::SequenceFlags
  std::uint32_t cell_count;
  std::uint32_t shared_cells;
  std::uint32_t extent_count;
  std::uint32_t delta_count;
  std::int32_t first_pos;
  std::int32_t next_pos;
  std::uint32_t reserved;
  std::uint64_t age_ms;
};
static_assert(sizeof(SequenceEntry) == 64);

struct SnapshotEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t sequence;
  std::uint32_t owner_uid;
  std::uint32_t is_public;
  std::uint32_t cell_count;
  std::uint32_t reserved;
  std::uint64_t age_ms;
};
static_assert(sizeof(SnapshotEntry) == 96);

// The prompt cache on disk. All zero: there is none. Numbers since the start of the daemon, but for
// the entries.
struct CacheReply {
  std::uint64_t entries;      // of this model and configuration
  std::uint64_t entry_bytes;  // of those
  std::uint64_t bytes_max;    // of all entries of the directory
  std::uint64_t loads;        // entries read
  std::uint64_t loaded_bytes;
  std::uint64_t loaded_tokens;
  std::uint64_t loads_not_worth_it;  // computing was expected to be faster
  std::uint64_t loads_failed;        // no room, cancelled, damaged, gone
  std::uint64_t spills;              // entries written
  std::uint64_t spilled_bytes;
  std::uint64_t spills_missed;  // the sequence had to go, or was taken, before it was written
  std::uint64_t spills_failed;  // the disk refused
  std::uint64_t spills_waiting;
  std::uint64_t entries_dropped;        // damaged
  std::uint64_t entries_removed;        // for others, by this daemon
  std::uint64_t load_bytes_per_s;       // as measured lately; 0: not yet
  std::uint64_t computed_tokens_per_s;  // of prompts, as measured lately; 0: not yet
  std::uint32_t is_on;
  std::uint32_t reserved;
};
static_assert(sizeof(CacheReply) == 144 && std::is_standard_layout_v<CacheReply>);

// Times of one kind of step, by StepPart (shm/step_parts.h).
struct StepTimesRecord {
  std::uint64_t steps;
  std::uint64_t tokens;
  std::uint64_t ns[16];  // kStepParts of them are used
};
static_assert(kStepParts <= 16);

struct ProfileReply {
  StepTimesRecord decode;   // steps of one token for each sequence
  StepTimesRecord prompts;  // all others
};
static_assert(sizeof(ProfileReply) == 2 * 18 * 8);

struct InfoReply {
  char model_name[64];
  char architecture[32];
  char kernels[16];
  char k_type[8];
  char v_type[8];
  char version[16];
  std::uint64_t weight_bytes;
  std::uint64_t pool_cells;
  std::uint64_t free_cells;  // in free blocks
  std::uint64_t reclaimable_cells;
  std::uint64_t live_cells;
  std::uint64_t cell_bytes;  // K and V of one token in all layers
  std::uint64_t pool_reserved_bytes;
  std::uint64_t resident_anonymous_bytes;
  std::uint64_t resident_shared_bytes;
  std::uint64_t resident_file_bytes;
  std::uint64_t tokens_computed;  // since start
  std::uint64_t tokens_sampled;
  std::uint64_t steps;
  std::uint64_t uptime_ms;
  std::uint32_t vocab_size;
  std::uint32_t context_trained;
  std::uint32_t layer_count;
  std::uint32_t embedding_size;
  std::uint32_t sequences_live;
  std::uint32_t sequence_capacity;
  std::uint32_t sessions;
  std::uint32_t threads;
  std::uint32_t descriptors;  // open in the daemon
  std::uint32_t mappings;
  std::uint32_t deterministic;
  std::uint32_t pid;
  std::uint32_t has_tokenizer;
  std::int32_t bos_token;  // -1: none
  std::int32_t eos_token;
  std::uint32_t adds_bos;
  std::uint64_t state_bytes;  // recurrent state of one sequence; 0: the model has none
  std::uint32_t state_slots;
  std::uint32_t free_state_slots;
  std::uint32_t checkpoint_slots;  // of those in use, held by checkpoints
  std::uint32_t wants_encode;      // 1: a sequence starts with kEncode
  // Prefix sharing, since start.
  std::uint64_t prefix_prompts;                        // that could have been shared
  std::uint64_t prefix_hits;                           // of those, a part was
  std::uint64_t prefix_tokens_reused[kPrefixOrigins];  // by PrefixOrigin
  std::uint64_t prefix_evictions;                      // retained sequences that made room
  std::uint64_t prefix_tokens_evicted;                 // that nothing else held
  std::uint32_t sequences_retained;                    // that may be evicted
  std::uint32_t reserved;
};
static_assert(sizeof(InfoReply) == 424 && std::is_standard_layout_v<InfoReply>);

struct DefragReply {
  std::uint64_t cells_moved;
  std::uint64_t cells_settled;  // re-rotated: their sequences have no shifts any more
  std::uint64_t blocks_freed;
  std::uint64_t bytes_returned;  // to the system
  std::uint64_t packing_ns;
  std::uint64_t returning_ns;  // what giving bytes back took; no part of packing_ns
  std::uint64_t settling_ns;
  std::uint32_t sequences_settled;
  std::uint32_t reserved;
};
static_assert(sizeof(DefragReply) == 64 && std::is_standard_layout_v<DefragReply>);

enum LoadedFlags : std::uint32_t {
  kLoadedConverted = 1u << 0,  // to the pool's types, which are other ones
  kLoadedSampler = 1u << 1,    // with the sampler of its last generation
};
struct LoadedEntry {
  std::uint64_t handle;
  std::uint32_t cell_count;   // 0 where tokens alone were saved
  std::uint32_t token_count;  // to be decoded; 0 where cells were saved
  std::uint64_t raw_bytes;    // of what was saved, not packed
  std::uint32_t flags;        // LoadedFlags
  std::uint32_t reserved;
  char k_type[8];  // that were saved
  char v_type[8];
};
static_assert(sizeof(LoadedEntry) == 48 && std::is_standard_layout_v<LoadedEntry>);

enum SavedFlags : std::uint32_t {
  kSavedThisModel = 1u << 0,
  kSavedDamaged = 1u << 1,  // nothing else is known
  kSavedTokensOnly = 1u << 2,
  kSavedLogits = 1u << 3,
};
struct SavedEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t file_bytes;
  std::uint64_t raw_bytes;  // not packed
  std::uint64_t cell_count;
  std::uint64_t age_ms;
  std::uint32_t sequence_count;
  std::uint32_t flags;  // SavedFlags
  char k_type[8];
  char v_type[8];
  char architecture[32];
};
static_assert(sizeof(SavedEntry) == 152 && std::is_standard_layout_v<SavedEntry>);

enum ExportStateFlags : std::uint32_t {
  kStateModel =
      1u << 0,  // the description of the model alone (state_form/state_model.h); no handles
  kStateOutline = 1u << 1,  // without the bytes of rows, states and logits (StateParts::kOutline)
  kStateNoLogits = 1u << 2,
  kStateNoCheckpoints = 1u << 3,  // of recurrent states the one behind the last cell alone
};
inline constexpr std::uint32_t kExportStateFlagsAll = (1u << 4) - 1;
inline constexpr std::uint32_t kStateHandlesMax = 256;

// Element types of K and V by their ggml numbers, or kPoolType: as in the pool.
inline constexpr std::uint8_t kPoolType = 255;
struct ExportStateParams {
  std::uint32_t flags;  // ExportStateFlags
  std::uint8_t k_type;
  std::uint8_t v_type;
  std::uint16_t reserved;
};
static_assert(sizeof(ExportStateParams) == 8);

// Payload of kChat: records {ChatMessage, role bytes, content bytes}, unpadded, back to back.
struct ChatMessage {
  std::uint32_t role_bytes;
  std::uint32_t content_bytes;
};
static_assert(sizeof(ChatMessage) == 8);

}  // namespace kvd::wire
