// Encoder: runs a text through the model's encoder in portions, and makes embeddings from the
// resulting rows.
//
// Every layer has two stages over the whole text: keys first, then rows (EncoderPass). Each stage
// is done in portions of rows, and the work can pause between any two portions. The data of a text
// between portions belongs to the text's TextEncoding, so several texts can be in progress.
//
// Owned by the engine and called by the engine thread. The encoder itself keeps no data of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/forward/pass/encoder_pass.h"

namespace kvd {

// The embedding of a text: [row_count, width].
struct Embedding {
  std::vector<float> values;
  std::size_t row_count = 0;  // 1; with Pooling::kNone the number of tokens
  std::size_t width = 0;
};

// Longest text, in tokens, of a model that embeds: the length that the model was trained on.
std::size_t EncoderTokensMax(const ModelConfig& config);
// Longest text, in tokens, that a decoder can attend to. The positions of a text that a decoder
// attends to are relative, so training sets no limit. kEncodeTokensMax bounds the buffers of a text
// (three rows of f32 per token) and the work of attention to the text.
inline constexpr std::size_t kEncodeTokensMax = 16384;

// Bytes that the rows of a text of token_count tokens occupy while it is encoded.
std::uint64_t EncoderBytes(const ModelConfig& config, std::size_t token_count);

// Returns the pooling of a request: `wanted`, or the file's. Errors: kUnsupported (the model reads
// no texts; neither the request nor the file names a pooling; or the pooling is rank and the model
// has no classifier; names the architecture).
Result<Pooling> PoolingFor(const ModelConfig& config, std::optional<Pooling> wanted);
// Elements of a row that the pooling makes.
std::size_t EmbeddingWidth(const ModelConfig& config, Pooling pooling);

// Checks that the model can embed the tokens. Errors: those of PoolingFor; kInvalidArgument (no
// tokens, too many tokens, or an id that is no token).
Status CheckEmbed(const ModelConfig& config, std::span<const TokenId> tokens,
                  std::optional<Pooling> pooling);

// Checks that a text can be encoded for a decoder. Errors: kUnsupported (the model does not have
// both an encoder and a decoder); kInvalidArgument (no tokens, more than kEncodeTokensMax, or an id
// that is no token).
Status CheckEncode(const ModelConfig& config, std::span<const TokenId> tokens);

// A text that is being encoded.
struct TextEncoding {
  explicit TextEncoding(std::vector<TokenId> tokens) { text.tokens = std::move(tokens); }

  EncoderText text;
  std::size_t layer = 0;
  bool has_keys = false;  // keys of the current layer exist for all rows
  std::size_t row = 0;    // first row that the current stage has not processed
};

class Encoder {
 public:
  // The arguments must outlive the Encoder.
  Encoder(const ModelConfig& config, const ModelWeights& weights,
          const kernels::KernelTable& kernels, ThreadPool& pool, bool exact)
      : pass_(config, weights, kernels, pool, exact) {}

  // Changes the choices of products for the following texts. REQUIRES: no text is being encoded.
  void UseChoices(const kernels::ProductChoices& choices) { pass_.UseChoices(choices); }

  // CostLeft: multiply-adds that remain for the text; 0 when the text is done. TokenCost:
  // multiply-adds of one token in all layers without attention, the unit in which the work of
  // tokens is measured.
  std::uint64_t CostLeft(const TextEncoding& encoding) const;
  std::uint64_t TokenCost() const;
  // Processes one portion of the text: rows of one stage that cost about cost_max, at least a few
  // rows. REQUIRES: CostLeft > 0.
  void Advance(TextEncoding& encoding, std::uint64_t cost_max);
  // Returns the embedding of a finished text, not normalised; with Pooling::kRank the scores of the
  // classifier. Errors: kNumerical (an element is not finite). REQUIRES: PoolingFor allows the
  // pooling.
  Result<Embedding> Pool(const TextEncoding& encoding, Pooling pooling);
  // Returns the pass with the given rows of a finished text as its current rows.
  EncoderPass& Rows(TextEncoding& encoding, std::size_t first_row, std::size_t row_count) {
    pass_.Begin(encoding.text, first_row, row_count);
    return pass_;
  }

 private:
  std::vector<float> Scores(std::vector<float> row);
  // Multiply-adds of one row in one layer: KeysCost for keys and values, RowsCost for the rest of
  // the layer.
  std::uint64_t KeysCost() const;
  std::uint64_t RowsCost(std::size_t token_count) const;

  EncoderPass pass_;
};

// Divides the row by its Euclidean length; no effect if the length is 0.
void NormalizeRow(std::span<float> row);

}  // namespace kvd
