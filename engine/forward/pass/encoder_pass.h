// EncoderPass: the interface to an architecture's encoder code: config, weights, some rows of one
// text in one layer, and scratch.
//
// A layer processes a text in two stages, each in portions of any size: MakeKeys for all rows, then
// AddAttention and the rest of the layer. Two stages are needed because every row attends to the
// keys and values of all rows. A row's result does not depend on the portions into which a text is
// divided.
//
// Owned by Encoder and used on the engine thread. The scratch of an EncoderPass grows up to
// kRowsMax rows and keeps its size. Data of a whole text belongs to the EncoderText.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/forward/compute/compute.h"
#include "engine/forward/compute/linear.h"
#include "engine/model/layer_weights.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/model/rope_table.h"

namespace kvd {

// Consecutive rows of [width] floats each, stored back to back.
struct RowSpan {
  float* const* rows = nullptr;
  std::size_t width = 0;
  float* operator[](std::size_t row) const { return rows[row]; }
};

// Rows of f32, stored back to back: [row_count, width].
class EncoderRows {
 public:
  void Shape(std::size_t row_count, std::size_t width);
  float* operator[](std::size_t row) const { return pointers_[row]; }
  std::size_t width() const { return width_; }
  RowSpan From(std::size_t row) const { return {pointers_.data() + row, width_}; }

 private:
  std::vector<float> floats_;
  std::vector<float*> pointers_;
  std::size_t width_ = 0;
};

// A text that is being encoded.
struct EncoderText {
  std::vector<TokenId> tokens;
  EncoderRows stream;  // [tokens, embedding_size]
  // Keys and values of the current layer: [tokens, kv_heads * head_dim]. If heads are packed
  // (PackHeads), the same floats are [kv_heads, tokens, head_dim].
  EncoderRows k, v;
};

// The function of a feed-forward's hidden rows.
enum class TextActivation : std::uint8_t {
  kGelu,  // tanh approximation (Hendrycks and Gimpel 2016)
  kSilu,  // with a gate only
  kRelu,  // without a gate only
};

class EncoderPass {
 public:
  static constexpr std::size_t kRowsMax = 512;  // most rows of one Begin

  // The arguments must outlive the EncoderPass.
  EncoderPass(const ModelConfig& config, const ModelWeights& weights,
              const kernels::KernelTable& kernels, ThreadPool& pool, bool exact);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const Compute& compute() const { return compute_; }
  void UseChoices(const kernels::ProductChoices& choices) { compute_.choices = choices; }
  // The current rows of the text's stream.
  RowSpan stream() const { return text_->stream.From(first_row_); }

  // stream = embedding_scale * the tokens' embeddings.
  void EmbedTokens();
  // stream[i] += row row_of(position of i) of the matrix.
  template <class RowOf>
  void AddRows(const WeightView& matrix, const RowOf& row_of) {
    for (std::size_t i = 0; i < row_count_; ++i) AddRow(matrix, row_of(first_row_ + i), i);
  }
  // Applies the norm to each row of the stream, in place: a layer norm, or an RMS norm if
  // EncoderConfig::norm_epsilon is 0.
  void Norm(const NormWeights& norm);
  // Returns norms of the stream's rows, which are valid until the next call; the stream itself if
  // there are no weights.
  RowSpan Normed(const NormWeights& norm);
  // Computes keys and values of the current rows in a layer: K(x), V(x).
  void MakeKeys(std::size_t layer, RowSpan x);
  // stream += PostNorm(Out(Attention(Q(x), K, V))), with the layer's position bias if the layer has
  // one. REQUIRES: MakeKeys was called for all rows of the text.
  void AddAttention(std::size_t layer, RowSpan x);
  // stream += PostNorm(Down(activation(Gate(x)) * Up(x))), or activation(Up(x)) without a gate.
  void AddFeedForward(std::size_t layer, RowSpan x, TextActivation activation);

  // y = linear(x), one row of any text.
  std::vector<float> Project(const LinearView& linear, const std::vector<float>& x);

  // Makes rows [first_row, first_row + row_count) of `text` the current rows. REQUIRES: row_count
  // <= kRowsMax; Shape was called for the text; the text outlives all calls that follow.
  void Begin(EncoderText& text, std::size_t first_row, std::size_t row_count);
  // Allocates the buffers of a whole text.
  void Shape(EncoderText& text) const;

 private:
  void AddRow(const WeightView& matrix, std::size_t row, std::size_t token);
  void NormRow(const NormWeights& norm, std::size_t width, const float* x, float* y) const;
  // Norms the heads of each current row, if there are weights, and rotates the heads, if the model
  // does.
  void NormAndRotate(std::size_t layer, const float* norm, std::size_t head_count,
                     const EncoderRows& rows);
  // stream += post_norm(linear(x)).
  void AddToStream(const LinearView& linear, const NormWeights& post_norm, RowSpan x);
  // Makes the workspaces and inputs large enough for products of row_count rows.
  void Reserve(std::size_t row_count);
  static LinearJob Job(const LinearView& linear, RowSpan x, RowSpan y) {
    return {.linear = &linear, .x = x[0], .x_stride = x.width, .y = y.rows};
  }
  void DecodeRow(const WeightView& matrix, std::size_t row, float* out) const;
  // Calls task(row) for every row, on several threads.
  template <class Task>
  void ForRows(const Task& task) {
    constexpr std::size_t kRowsPerUnit = 16;
    compute_.pool->Run((row_count_ + kRowsPerUnit - 1) / kRowsPerUnit,
                       [&](std::uint32_t, std::size_t unit) {
                         const std::size_t first = unit * kRowsPerUnit;
                         const std::size_t last = std::min(row_count_, first + kRowsPerUnit);
                         for (std::size_t row = first; row < last; ++row) task(row);
                       });
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Compute compute_;
  FloatBuffer workspaces_;
  FloatBuffer inputs_;
  const RopeTable rope_;
  const RopeTable window_rope_;
  const std::vector<float> slopes_;  // [head_count], or none
  EncoderText* text_ = nullptr;
  std::size_t first_row_ = 0;
  std::size_t row_count_ = 0;
  // Scratch of the current rows.
  EncoderRows normed_, angles_, q_, k_, v_, attended_, gate_, hidden_, projected_;
  std::vector<float> row_, ones_;
};

}  // namespace kvd
