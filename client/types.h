// What the client's calls take and return, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/piece_codec.h"
#include "shm/sampling_params.h"
#include "shm/verb_table.h"

namespace kvd {

struct ForkInfo {
  std::uint64_t engine_ns = 0;   // spent in the daemon's engine
  std::uint64_t cell_count = 0;  // in each fork
  // Recurrent models, where no checkpoint is at that cell: tokens computed again for its state.
  std::uint64_t tokens_replayed = 0;
};

struct TokenAt {
  TokenId token = 0;
  Pos pos;
};

struct Snapshot {
  std::string name;
  SequenceHandle sequence = SequenceHandle::kNone;
  std::uint32_t owner_uid = 0;
  bool is_public = false;
  std::uint32_t cell_count = 0;
  std::uint64_t age_ms = 0;
};

// Numbers of a text: [row_count, width]; one row, or one for each token (models without pooling).
// What a sequence's decoder attends to.
struct EncodedText {
  std::uint64_t token_count = 0;
  std::optional<TokenId> start_token{};  // that decoding starts with, where the model names one
};

struct TextEmbedding {
  std::vector<float> values;
  std::size_t row_count = 0;
  std::size_t width = 0;
  std::span<const float> row(std::size_t index) const {
    return std::span(values).subspan(index * width, width);
  }
};

struct RoundTrip {
  std::uint64_t ns = 0;
};

struct SaveOptions {
  bool with_logits = true;
  bool tokens_only = false;  // small; loading computes them again, at positions 0, 1, ...
  bool is_packed = true;
  bool q8_rows = false;  // K and V as q8_0
  bool replaces = false;
};

struct SaveInfo {
  std::uint64_t file_bytes = 0;      // 0 where the size alone was asked for
  std::uint64_t unpacked_bytes = 0;  // of a file in which nothing is packed
  std::uint64_t cell_count = 0;
};

struct LoadedSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint64_t cell_count = 0;
  bool is_converted = false;  // from k_type and v_type to the types of the pool
  bool is_computed = false;   // tokens alone were saved
  std::string k_type;
  std::string v_type;
  bool has_sampler = false;  // of its last generation: wire::kResumeSampler goes on with it
};

// A saved file that was loaded. Where tokens alone were saved, they are still to be decoded, at
// positions 0, 1, ...; none: the sequence has its cells.
struct LoadedFile {
  std::vector<LoadedSequence> sequences;
  std::vector<std::vector<TokenId>> tokens;  // of each
};
// Error: kCorrupt.
Result<LoadedFile> ReadLoaded(const wire::LoadReply& reply);

// Which llama.cpp reads a state file that is written.
enum class LlamaFileLayout : std::uint16_t { k2025 = 2025, k2026 = 2026 };

// How sequences become a state file of llama.cpp. Types: their ggml numbers (f32 0, f16 1, q8_0 8,
// bf16 30), or wire::kPoolType.
struct LlamaFileOptions {
  bool is_session = false;       // of any number of sequences; else of one
  bool is_v_transposed = false;  // what llama.cpp without flash attention reads
  std::uint8_t k_type = wire::kPoolType;
  std::uint8_t v_type = wire::kPoolType;
  LlamaFileLayout layout = LlamaFileLayout::k2026;
  // Of 2026: streams of the cache that will read the file: 1 where its sequences share one buffer
  // (kv_unified), else as many as it has sequences.
  std::uint16_t streams = 1;
  bool is_unrotated = false;  // of 2026: quantised heads as with LLAMA_ATTN_ROT_DISABLE
};

// Which sequences of a file are wanted, and how it was written.
struct LlamaReadOptions {
  static constexpr std::int32_t kOnlySequence = -1;
  static constexpr std::int32_t kEverySequence = -2;
  std::int32_t sequence_id = kOnlySequence;  // of a session, or one of the two above
  bool is_unrotated = false;                 // quantised heads are not rotated
};

// A sequence that was made of a file of llama.cpp.
struct ImportedSequence {
  SequenceHandle handle = SequenceHandle::kNone;
  std::uint32_t cell_count = 0;
  std::uint32_t tokens_left_out = 0;  // of the file: behind the last cell
  std::uint32_t cells_left_out = 0;   // of the file: behind the last token
  bool is_converted = false;          // K or V had another type than the pool's
};

// Changing what another session of the same user owns, or replacing a name.
enum class Force : bool { kNo, kYes };

// A flag of a submission, or none.
constexpr std::uint16_t FlagIf(bool is_wanted, wire::SubmissionFlags flag) {
  return is_wanted ? static_cast<std::uint16_t>(flag) : std::uint16_t{0};
}

// What to generate. Ranges: wire::GenerateParams.
struct GenerateOptions {
  std::span<const TokenId> tokens;  // to append first; at least one
  std::optional<Pos> pos{};         // of the first; none: the sequence's next position
  std::int32_t predict_max = -1;    // 0: only compute the prompt; -1: until an end token
  SamplingParams sampling = kDefaultSampling;
  std::uint32_t logprob_count = 0;  // top n with each token
  std::uint64_t seed = 0;           // 0: drawn by the daemon
  std::uint32_t flags = 0;          // wire::GenerateFlags
  bool wants_progress = false;      // pieces of kPieceProgress while the prompt is computed
  bool shares_prefix = true;        // an empty sequence may begin with what others hold
  std::span<const wire::LogitBias> biases{};
  std::span<const std::string_view> stops{};
};

}  // namespace kvd
