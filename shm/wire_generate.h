// What a generate carries and answers: its parameters, the pieces of its answer, and its result.
#pragma once

#include <cstdint>
#include <type_traits>

#include "shm/sampling_params.h"

namespace kvd::wire {

enum GenerateFlags : std::uint32_t {
  kIgnoreEos =
      1u << 0,        // end-of-generation tokens are never sampled (their logits become -infinity)
  kNoText = 1u << 1,  // pieces carry tokens only (always so without a tokenizer)
  kShowSpecial = 1u << 2,  // special tokens appear in the text
  // No prompt: the first token is drawn from the logits of the sequence's last one.
  // The logits are those kept with the sequence (recurrent models), or its last token is computed
  // once more beside it.
  kContinue = 1u << 3,
  // Continues with the sampler that drew the sequence's last tokens: `sampling`, seed, biases and
  // kIgnoreEos are its own, those given here are ignored.
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
      predict_max;  // tokens to sample; 0: only compute the prompt; -1: until an end token or a
                    // full pool
  SamplingParams sampling;
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

}  // namespace kvd::wire
