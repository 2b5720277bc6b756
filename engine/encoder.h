// Encoder: a text through the model's encoder, in portions, and what its rows become.
//
// Every layer takes two stages over the whole text, keys and then rows (EncoderPass), each in portions
// of rows: work that can stop between any two portions. What a text needs meanwhile belongs to its
// TextEncoding, so that several texts may be on their way.
//
// Owned by the engine, called by its thread. It keeps nothing of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/encoder_pass.h"
#include "shm/error.h"

namespace kvd {

// Numbers of a text: [row_count, width].
struct Embedding {
  std::vector<float> values;
  std::size_t row_count = 0;  // 1, or with Pooling::kNone one for each token
  std::size_t width = 0;
};

// Longest text of a model that embeds: as many tokens as it was trained on.
std::size_t EncoderTokensMax(const ModelConfig& config);
// Longest text for a decoder to attend to. Positions are relative, so no training sets a limit; this
// one bounds the buffers of a text (three rows of f32 a token) and its attention.
inline constexpr std::size_t kEncodeTokensMax = 16384;

// Bytes of the rows of a text of that many tokens while it is on its way.
std::uint64_t EncoderBytes(const ModelConfig& config, std::size_t token_count);

// Errors: kUnsupported (the model has no encoder that embeds, or a pooling that makes no
// embedding), naming the model's architecture; kInvalidArgument (no tokens, too many, an id that is
// no token).
Status CheckEmbed(const ModelConfig& config, std::span<const TokenId> tokens);

// Errors: kUnsupported (no encoder with a decoder behind it); kInvalidArgument (no tokens, more than
// kEncodeTokensMax, an id that is no token).
Status CheckEncode(const ModelConfig& config, std::span<const TokenId> tokens);

// A text on its way.
struct TextEncoding {
  explicit TextEncoding(std::vector<TokenId> tokens) { text.tokens = std::move(tokens); }

  EncoderText text;
  std::size_t layer = 0;
  bool has_keys = false;  // of the layer, for all rows
  std::size_t row = 0;    // first one that the stage has not done
};

class Encoder {
 public:
  // The arguments outlive the object.
  Encoder(const ModelConfig& config, const ModelWeights& weights,
          const kernels::KernelTable& kernels, ThreadPool& pool, bool exact)
      : pass_(config, weights, kernels, pool, exact) {}

  // Multiply-adds of what is left of the text, 0 when it is done; and those of one token through all
  // layers, without attention: what a token's work is measured by.
  std::uint64_t CostLeft(const TextEncoding& encoding) const;
  std::uint64_t TokenCost() const;
  // One portion of the text: rows of one stage that cost about cost_max, a few at least. REQUIRES:
  // something is left.
  void Advance(TextEncoding& encoding, std::uint64_t cost_max);
  // The embedding of a text that is done, as it is, not normalised. Errors: kNumerical.
  Result<Embedding> Pool(const TextEncoding& encoding) const;
  // The pass, with rows of a text that is done at hand.
  EncoderPass& Rows(TextEncoding& encoding, std::size_t first_row, std::size_t row_count) {
    pass_.Begin(encoding.text, first_row, row_count);
    return pass_;
  }

 private:
  // Of one row in one layer.
  std::uint64_t KeysCost() const;
  std::uint64_t RowsCost(std::size_t token_count) const;

  EncoderPass pass_;
};

// Divides by the Euclidean length, unless that is 0.
void NormalizeRow(std::span<float> row);

}  // namespace kvd
