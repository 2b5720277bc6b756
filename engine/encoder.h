// Encoder: a whole text through the model's encoder at once, and what its rows become.
//
// Owned by the engine, called by its thread. It keeps nothing of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

// Longest text: as many tokens as the model was trained on.
std::size_t EncoderTokensMax(const ModelConfig& config);

// Errors: kUnsupported (the model has no encoder that embeds, or a pooling that makes no
// embedding), naming the model's architecture; kInvalidArgument (no tokens, too many, an id that is
// no token).
Status CheckEmbed(const ModelConfig& config, std::span<const TokenId> tokens);

// Errors: kUnsupported (no encoder with a decoder behind it); kInvalidArgument (no tokens, an id that
// is no token).
Status CheckEncode(const ModelConfig& config, std::span<const TokenId> tokens);

class Encoder {
 public:
  // The arguments outlive the object.
  Encoder(const ModelConfig& config, const ModelWeights& weights,
          const kernels::KernelTable& kernels, ThreadPool& pool, bool exact)
      : pass_(config, weights, kernels, pool, exact) {}

  // The text's embedding as it is, not normalised. Errors: CheckEmbed's; kNumerical.
  Result<Embedding> Embed(std::span<const TokenId> tokens);
  // The text through the encoder; the rows of the pass's stream are what a decoder attends to, until
  // the next text. REQUIRES: CheckEncode is content.
  EncoderPass& Encode(std::span<const TokenId> tokens);

 private:
  EncoderPass pass_;
};

// Divides by the Euclidean length, unless that is 0.
void NormalizeRow(std::span<float> row);

}  // namespace kvd
