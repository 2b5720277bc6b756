// Argument and result types of the client's calls, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "shm/payload_codec.h"
#include "shm/piece_codec.h"
#include "shm/sampling_params.h"
#include "shm/verb_table.h"

namespace kvd {

struct ForkInfo {
  std::uint64_t engine_ns = 0;   // time in the daemon's engine
  std::uint64_t cell_count = 0;  // number of cells of each fork
  // Number of tokens computed again, if a recurrent model has no checkpoint after cell_count cells.
  std::uint64_t tokens_replayed = 0;
};

struct TokenAt {
  TokenId token = 0;
  Pos pos;
};

// How long a sequence stays, and whether other prompts may reuse its cells.
struct SequenceLifetime {
  // Seconds after which the daemon drops the sequence, at most wire::kTtlSecondsMax; 0: it does not
  // expire.
  std::uint32_t ttl_seconds = 0;
  // True: no prompt reuses the sequence's cells, and the sequence is dropped when it is released.
  // Forks of an ephemeral sequence are ephemeral.
  bool is_ephemeral = false;
};

struct Snapshot {
  std::string name;
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t owner_uid = 0;
  bool is_public = false;
  bool is_own = false;  // of this user or tenant; tenants have the owner_uid of their user
  std::uint32_t cell_count = 0;
  std::uint64_t age_ms = 0;
  std::uint32_t expires_in_seconds = 0;  // 0: the snapshot does not expire
  bool is_ephemeral = false;
};

// The encoded text that a sequence's decoder attends to.
struct EncodedText {
  std::uint64_t token_count = 0;
  std::optional<TokenId> start_token{};  // token with which decoding starts; nullopt: none
};

// The embedding of a text, [row_count, width]: one row, or one row for each token if the model does
// no pooling.
struct TextEmbedding {
  std::vector<float> values;
  std::size_t row_count = 0;
  std::size_t width = 0;
  bool is_normalised = false;  // the rows have length 1
  std::span<const float> row(std::size_t index) const {
    return std::span(values).subspan(index * width, width);
  }
};

struct RoundTrip {
  std::uint64_t ns = 0;
};

struct SaveOptions {
  bool with_logits = true;
  // True: no cells are saved; loading computes the tokens again, at positions 0, 1, ...
  bool tokens_only = false;
  bool is_packed = true;
  bool q8_rows = false;  // true: K and V are converted to q8_0
  bool replaces = false;
};

struct SaveInfo {
  std::uint64_t file_bytes = 0;      // size of the written file; 0 if only the size was requested
  std::uint64_t unpacked_bytes = 0;  // size of the file if nothing is compressed
  std::uint64_t cell_count = 0;
};

struct LoadedSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint64_t cell_count = 0;
  // True: the rows were converted from k_type and v_type to the types of the pool.
  bool is_converted = false;
  bool is_computed = false;  // true: only tokens were saved, and loading computed their cells
  std::string k_type;
  std::string v_type;
  // True: a generation with wire::kResumeSampler can resume the saved sampler.
  bool has_sampler = false;
};

// A loaded file. Sequences that were saved as tokens only must still be decoded, at positions 0, 1,
// ...
struct LoadedFile {
  std::vector<LoadedSequence> sequences;
  // For each sequence, the tokens to decode; the list is empty if the sequence was loaded with its
  // cells.
  std::vector<std::vector<TokenId>> tokens;
};
// Converts the reply of kLoad or kImportState. Error: kCorrupt.
Result<LoadedFile> ReadLoaded(const wire::LoadReply& reply);

// The version of llama.cpp that a written state file is for.
enum class LlamaFileLayout : std::uint16_t { k2025 = 2025, k2026 = 2026 };

// Options for writing a state file of llama.cpp. Types are ggml's numbers (f32 0, f16 1, q4_0 2,
// q8_0 8, bf16 30) or wire::kPoolType.
struct LlamaFileOptions {
  // True: a session file with any number of sequences; false: a sequence file.
  bool is_session = false;
  bool is_v_transposed = false;  // true: V is written for llama.cpp without flash attention
  std::uint8_t k_type = wire::kPoolType;
  std::uint8_t v_type = wire::kPoolType;
  LlamaFileLayout layout = LlamaFileLayout::k2026;
  // Only for k2026: the number of streams of the llama.cpp cache that will read the file. `streams`
  // is 1 if the sequences of that cache share one buffer (kv_unified), else the cache's number of
  // sequences.
  std::uint16_t streams = 1;
  // Only for k2026: true if the llama.cpp that will read the file has LLAMA_ATTN_ROT_DISABLE set.
  bool is_unrotated = false;
};

// Options for reading a state file of llama.cpp: which sequences are read, and how the file was
// written.
struct LlamaReadOptions {
  static constexpr std::int32_t kOnlySequence = -1;
  static constexpr std::int32_t kEverySequence = -2;
  // A sequence id of a session file, or kOnlySequence or kEverySequence.
  std::int32_t sequence_id = kOnlySequence;
  // True: the quantised heads in the file are not rotated.
  bool is_unrotated = false;
};

// A sequence that was created from a state file of llama.cpp.
struct ImportedSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint32_t cell_count = 0;
  // Number of tokens of the file that have no cell and are left out.
  std::uint32_t tokens_left_out = 0;
  // Number of cells of the file that have no token and are left out.
  std::uint32_t cells_left_out = 0;
  bool is_converted = false;  // true: K or V has another type in the file than in the pool
};

// Force::kYes: the request may change sequences of the user's other sessions, or replace an
// existing name.
enum class Force : bool { kNo, kYes };

// Returns `flag` if is_wanted, else 0.
constexpr std::uint16_t FlagIf(bool is_wanted, wire::SubmissionFlags flag) {
  return is_wanted ? static_cast<std::uint16_t>(flag) : std::uint16_t{0};
}

// The arguments of a generation. Ranges: wire::GenerateParams.
struct GenerateOptions {
  std::span<const TokenId> tokens;  // tokens to append before sampling; at least one
  std::optional<Pos> pos{};  // position of the first token; nullopt: the sequence's next position
  // Number of tokens to sample; 0: only compute the prompt; -1: sample until an end token.
  std::int32_t predict_max = -1;
  SamplingParams sampling = kDefaultSampling;
  std::uint32_t logprob_count = 0;  // number of top tokens reported with each token
  std::uint64_t seed = 0;           // seed of the sampler; 0: the daemon chooses a seed
  std::uint32_t flags = 0;          // wire::GenerateFlags
  // True: the daemon sends pieces of kPieceProgress while it computes the prompt.
  bool wants_progress = false;
  bool shares_prefix = true;  // true: a prompt for an empty sequence may reuse a prefix
  // Time in ms to wait for room; 0: as the daemon's options say; -1: none.
  std::int32_t room_wait_ms = 0;
  std::span<const wire::LogitBias> biases{};
  std::span<const std::string_view> stops{};
  // DRY's breakers, at most wire::kBreakersMax; nullopt: llama.cpp's default ones.
  std::optional<std::span<const std::string_view>> breakers{};
  // GBNF that holds the answer, at most wire::kGrammarBytesMax bytes; empty: none. With triggers,
  // at most wire::kTriggersMax, the grammar begins at the first trigger of the answer.
  std::string_view grammar{};
  std::span<const wire::TriggerView> triggers{};
};

}  // namespace kvd
