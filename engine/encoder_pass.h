// EncoderPass: what an architecture's encoder sees of some rows of one text in one layer: config,
// weights, the rows and scratch.
//
// A layer takes two passes over a text, each in any portions of rows: MakeKeys for all rows, then
// AddAttention and what follows it, since every row attends to the keys and values of all. A row's
// result does not depend on the portions.
//
// Owned by Encoder, used on the engine thread. Scratch grows to kRowsMax rows and stays; what a whole
// text needs belongs to the EncoderText.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/compute.h"
#include "engine/layers/encoder_layer_weights.h"
#include "engine/layers/linear.h"
#include "engine/model_config.h"
#include "engine/model_weights.h"
#include "shm/ids.h"

namespace kvd {

// Rows that follow each other; [width] floats each, back to back.
struct RowSpan {
  float* const* rows = nullptr;
  std::size_t width = 0;
  float* operator[](std::size_t row) const { return rows[row]; }
};

// Rows of f32 back to back: [row_count, width].
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

// A text on its way through the encoder.
struct EncoderText {
  std::vector<TokenId> tokens;
  EncoderRows stream;  // [tokens, embedding_size]
  // Of the layer at hand: [tokens, heads * head_dim]; where heads are packed (PackHeads)
  // [heads, tokens, head_dim] in the same floats.
  EncoderRows k, v;
};

class EncoderPass {
 public:
  static constexpr std::size_t kRowsMax = 512;  // of one pass

  // The arguments outlive the object.
  EncoderPass(const ModelConfig& config, const ModelWeights& weights,
              const kernels::KernelTable& kernels, ThreadPool& pool, bool exact);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const Compute& compute() const { return compute_; }
  // The rows at hand of the text's stream.
  RowSpan stream() const { return text_->stream.From(first_row_); }

  // stream = the tokens' embeddings.
  void EmbedTokens();
  // stream[i] += row row_of(position of i) of the matrix.
  template <class RowOf>
  void AddRows(const WeightView& matrix, const RowOf& row_of) {
    for (std::size_t i = 0; i < row_count_; ++i) AddRow(matrix, row_of(first_row_ + i), i);
  }
  // Norms each row of the stream by itself.
  void Norm(const LayerNormWeights& norm);
  // RMS norms of the rows of the stream, until the next call.
  RowSpan RmsNormed(const float* weight);
  // The same in place.
  void RmsNorm(const float* weight);
  // Keys and values of the text's rows at hand: K(x), V(x).
  void MakeKeys(const EncoderLayerWeights& layer, RowSpan x);
  // stream += Out(Attention(Q(x), K, V)), with the layer's position bias if it has one. REQUIRES:
  // MakeKeys was called for all rows of the text.
  void AddAttention(const EncoderLayerWeights& layer, RowSpan x);
  // stream += Down(Gelu(Up(x)))
  void AddFeedForward(const EncoderLayerWeights& layer, RowSpan x);
  // stream += Down(Gelu(Gate(x)) * Up(x)), without a gate Down(Relu(Up(x))).
  void AddT5FeedForward(const EncoderLayerWeights& layer, RowSpan x);

  // Takes rows [first_row, first_row + row_count) of a text in hand. REQUIRES: row_count <= kRowsMax;
  // the text is Shaped and outlives what follows.
  void Begin(EncoderText& text, std::size_t first_row, std::size_t row_count);
  // The buffers of a whole text.
  void Shape(EncoderText& text) const;

 private:
  void AddRow(const WeightView& matrix, std::size_t row, std::size_t token);
  // stream += linear(x)
  void AddToStream(const LinearView& linear, RowSpan x);
  static LinearJob Job(const LinearView& linear, RowSpan x, RowSpan y) {
    return {.linear = &linear, .x = x[0], .x_stride = x.width, .y = y.rows};
  }
  void DecodeRow(const WeightView& matrix, std::size_t row, float* out) const;
  // task(row) for every row, on several threads.
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
  EncoderText* text_ = nullptr;
  std::size_t first_row_ = 0;
  std::size_t row_count_ = 0;
  // Scratch of the rows at hand.
  EncoderRows normed_, q_, k_, v_, attended_, gate_, hidden_, projected_;
  std::vector<float> row_, ones_;
};

}  // namespace kvd
