// The payload and output of a generate request: parameters, pieces and result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "shm/sampling_params.h"

namespace kvd::wire {

enum GenerateFlags : std::uint32_t {
  // End-of-generation tokens are never sampled (their logits become -infinity).
  kIgnoreEos = 1u << 0,
  // Pieces contain tokens and no text; without a tokenizer, pieces never contain text.
  kNoText = 1u << 1,
  kShowSpecial = 1u << 2,  // special tokens appear in the text
  // The request has no prompt: the first token is drawn from the logits of the sequence's last
  // token. A recurrent model keeps the logits of the last token with the sequence; other models
  // compute the last token again.
  kContinue = 1u << 3,
  // The request resumes the sampler that drew the sequence's last tokens, with that sampler's
  // parameters, seed, biases, breakers, kIgnoreEos and kLlamaDraws. Those of this request are
  // ignored.
  kResumeSampler = 1u << 4,
  // The breakers of the payload, which may be none, replace DRY's default breakers.
  kOwnBreakers = 1u << 5,
  // Tokens are drawn as llama.cpp draws them: of the seed, the low 32 bits are llama.cpp's seed
  // (docs/sampling.md).
  kLlamaDraws = 1u << 6,
  // The answer ends as soon as its last token is drawn: this token is not computed and does not
  // become part of the sequence.
  kSkipLast = 1u << 7,
  // The daemon sends a piece of kPieceParking when the request begins or ends to wait for room in
  // the pool.
  kTellParking = 1u << 8,
};
inline constexpr std::uint32_t kGenerateFlagsAll = (1u << 9) - 1;
inline constexpr std::uint32_t kStopsMax = 16;
// Largest number of bytes of a stop string, which has at least 1 byte and is valid UTF-8.
inline constexpr std::uint32_t kStopBytesMax = 256;
inline constexpr std::uint32_t kBiasesMax = 1024;
// DRY's breakers: the most of one request, and the most bytes of one, which is valid UTF-8 and has
// at least 1 byte.
inline constexpr std::uint32_t kBreakersMax = 16;
inline constexpr std::uint32_t kBreakerBytesMax = 40;
inline constexpr std::uint32_t kLogprobsMax = 64;
// Largest absolute value of a bias; the bias -infinity, which forbids a token, is also allowed.
inline constexpr float kBiasMax = 1000.0f;

// Largest number of bytes of a grammar, which is GBNF (docs/grammar.md) and valid UTF-8.
inline constexpr std::uint32_t kGrammarBytesMax = 1u << 20;
// A trigger's text has 1..kTriggerBytesMax bytes of valid UTF-8.
inline constexpr std::uint32_t kTriggersMax = 64;
inline constexpr std::uint32_t kTriggerBytesMax = 256;

// Payload of kGenerate: GenerateParams | i32 tokens[token_count] | LogitBias[bias_count] |
// StopString[stop_count] | Breaker[breaker_count] | Trigger[trigger_count] |
// grammar[grammar_bytes]. Stop strings and breakers are each a u32 byte count and the bytes; a
// trigger is an i32 token (-1: the trigger is a text), a u32 byte count (0 for a token) and the
// bytes; all unpadded.
struct GenerateParams {
  // Number of prompt tokens, which are appended first; at least 1; 0 with kContinue.
  std::uint32_t token_count;
  // Number of tokens to sample. 0: only compute the prompt. -1: sample until an end token, a stop
  // string, or a pool that this sequence alone has filled.
  std::int32_t predict_max;
  SamplingParams sampling;
  // Number of most likely tokens reported for each sampled token, 0..kLogprobsMax.
  std::uint32_t logprob_count;
  std::uint32_t flags;  // GenerateFlags
  std::uint64_t seed;   // seed of the sampler; 0: the daemon draws a seed and reports it
  std::uint32_t bias_count;
  std::uint32_t stop_count;
  std::uint32_t stop_bytes;     // bytes of all StopString records together
  std::uint32_t breaker_count;  // 0 without kOwnBreakers
  std::uint32_t breaker_bytes;  // bytes of all Breaker records together
  // The answer is a sentence of this grammar, or the beginning of one. 0: no grammar.
  std::uint32_t grammar_bytes;
  // Above 0: the grammar begins at the first trigger in the answer, and before it every token may
  // be drawn; 0: it begins with the first token. 0 without a grammar.
  std::uint32_t trigger_count;
  std::uint32_t trigger_bytes;  // bytes of all Trigger records together
  // Time in ms that the request waits for room in the pool while no request of its owner
  // progresses, at least -1. 0: as the daemon's --room-wait-ms says. -1: it does not wait.
  std::int32_t room_wait_ms;
  std::uint32_t reserved;  // 0
};
static_assert(sizeof(GenerateParams) == 168 && offsetof(GenerateParams, seed) == 120 &&
              std::is_standard_layout_v<GenerateParams>);

struct LogitBias {
  std::int32_t token;
  float bias;
};
static_assert(sizeof(LogitBias) == 8);

// Output of a kGenerate or kDecode piece (kMore):
//   kPieceProgress: GeneratePiece only; done and total count prompt tokens
//   kPieceParking:  GeneratePiece only; done is 1 if the request waits for room (kTellParking), and
//                   0 when it has room again
//   kPieceTokens:   GeneratePiece | i32 tokens[token_count] | text[text_bytes], padded to 4 |
//                   TokenLogprob[logprob_count]
enum PieceKind : std::uint32_t { kPieceProgress = 1, kPieceTokens = 2, kPieceParking = 3 };
struct GeneratePiece {
  std::uint32_t kind;
  std::uint32_t token_count;
  std::uint32_t text_bytes;
  // Number of TokenLogprob records: for each token, the record of the sampled token, then the
  // records of the most likely tokens.
  std::uint32_t logprob_count;
  std::uint64_t done;
  std::uint64_t total;
};
static_assert(sizeof(GeneratePiece) == 32);

struct TokenLogprob {
  std::int32_t token;
  float logprob;  // natural logarithm of the token's probability before temperature and truncation
};
static_assert(sizeof(TokenLogprob) == 8);

enum FinishReason : std::uint32_t {
  kFinishEnd = 1,
  kFinishStop = 2,
  kFinishLength = 3,
  kFinishGrammar = 4,  // no token of the vocabulary can follow in the grammar
};

// The message of a kNoSpace begins with it if the tokens of a request find no room in the pool. The
// numbers behind the first colon are those of all users.
inline constexpr std::string_view kNoRoomPrefix = "no room for ";

// Output of the last completion of a kGenerate. Text that the daemon has held back to match stop
// strings is sent as a piece before this last completion.
struct GenerateResult {
  std::uint64_t seed;             // the seed that the sampler used
  std::uint32_t finish;           // FinishReason
  std::uint32_t prompt_reused;    // number of cells that the sequence had before the request
  std::uint32_t prompt_computed;  // number of prompt tokens that were computed, not shared
  std::uint32_t predicted;        // number of tokens of the answer
  std::uint64_t prompt_ns;
  std::uint64_t predict_ns;
  std::uint32_t prompt_shared;  // number of prompt tokens taken from another sequence
  std::uint8_t shared_origin;   // PrefixOrigin
  std::uint8_t share_limit;     // PrefixLimit: the reason why no more tokens were shared
  std::uint8_t skipped;         // 1: the last token is not committed (kSkipLast, is_full); else 0
  std::uint8_t is_full;         // 1: the answer ended because its sequence had all the room; else 0
};
static_assert(sizeof(GenerateResult) == 48);

}  // namespace kvd::wire
