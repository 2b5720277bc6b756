// EncoderPass: what an architecture's encoder sees of one text: config, weights, its tokens and
// rows.
//
// Owned by Encoder, used on the engine thread. Buffers grow to the longest text and stay.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/compute.h"
#include "engine/layers/encoder_layer_weights.h"
#include "engine/model_config.h"
#include "engine/model_weights.h"
#include "shm/ids.h"

namespace kvd {

// Rows of f32 back to back: [row_count, width].
class EncoderRows {
 public:
  void Shape(std::size_t row_count, std::size_t width);
  float* operator[](std::size_t row) const { return pointers_[row]; }
  float* const* pointers() const { return pointers_.data(); }
  std::size_t width() const { return width_; }

 private:
  std::vector<float> floats_;
  std::vector<float*> pointers_;
  std::size_t width_ = 0;
};

class EncoderPass {
 public:
  // The arguments outlive the object.
  EncoderPass(const ModelConfig& config, const ModelWeights& weights,
              const kernels::KernelTable& kernels, ThreadPool& pool, bool exact);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const Compute& compute() const { return compute_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  const EncoderRows& stream() const { return stream_; }  // [tokens, embedding_size]

  // stream = the tokens' embeddings.
  void EmbedTokens();
  // stream[i] += row of_token(i) of the matrix.
  template <class RowOf>
  void AddRows(const WeightView& matrix, const RowOf& row_of) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) AddRow(matrix, row_of(i), i);
  }
  // Norms each row of the stream by itself.
  void Norm(const LayerNormWeights& norm);
  // RMS norms of the rows of the stream, until the next call.
  const EncoderRows& RmsNormed(const float* weight);
  // The same in place.
  void RmsNorm(const float* weight);
  // stream += Out(Attention(Q(x), K(x), V(x))), with the layer's position bias if it has one.
  void AddAttention(const EncoderLayerWeights& layer, const EncoderRows& x);
  // stream += Down(Gelu(Up(x)))
  void AddFeedForward(const EncoderLayerWeights& layer, const EncoderRows& x);
  // stream += Down(Gelu(Gate(x)) * Up(x)), without a gate Down(Relu(Up(x))).
  void AddT5FeedForward(const EncoderLayerWeights& layer, const EncoderRows& x);

 private:
  friend class Encoder;
  void Begin(std::span<const TokenId> tokens);
  void AddRow(const WeightView& matrix, std::size_t row, std::size_t token);
  // stream += linear(x)
  void AddToStream(const LinearView& linear, const EncoderRows& x);
  void DecodeRow(const WeightView& matrix, std::size_t row, float* out) const;
  // task(row) for every row, on several threads.
  template <class Task>
  void ForRows(const Task& task) {
    constexpr std::size_t kRowsPerUnit = 16;
    compute_.pool->Run((tokens_.size() + kRowsPerUnit - 1) / kRowsPerUnit,
                       [&](std::uint32_t, std::size_t unit) {
                         const std::size_t first = unit * kRowsPerUnit;
                         const std::size_t last = std::min(tokens_.size(), first + kRowsPerUnit);
                         for (std::size_t row = first; row < last; ++row) task(row);
                       });
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Compute compute_;
  FloatBuffer workspaces_;
  FloatBuffer inputs_;
  std::span<const TokenId> tokens_;
  EncoderRows stream_, normed_, q_, k_, v_, attended_, gate_, hidden_, projected_;
  std::vector<float> packed_k_, packed_v_;  // [head_count, tokens, head_dim]
  std::vector<float> row_, ones_;
};

}  // namespace kvd
