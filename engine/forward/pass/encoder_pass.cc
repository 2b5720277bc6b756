#include "engine/forward/pass/encoder_pass.h"

#include <algorithm>

#include "base/check.h"
#include "engine/forward/attention/bidirectional_attention.h"
#include "engine/forward/attention/plain_text_attention.h"
#include "engine/forward/compute/activations.h"
#include "engine/forward/compute/layer_norm.h"
#include "engine/forward/compute/linear.h"

namespace kvd {

void EncoderRows::Shape(std::size_t row_count, std::size_t width) {
  floats_.resize(row_count * width);
  width_ = width;
  pointers_.resize(row_count);
  for (std::size_t row = 0; row < row_count; ++row) pointers_[row] = floats_.data() + row * width;
}

EncoderPass::EncoderPass(const ModelConfig& config, const ModelWeights& weights,
                         const kernels::KernelTable& kernels, ThreadPool& pool, bool exact)
    : config_(config),
      weights_(weights),
      compute_{.kernels = &kernels,
               .pool = &pool,
               .exact = exact,
               .workspaces = nullptr,
               .workspace_floats = 0,
               .inputs = nullptr,
               .input_bytes = 0},
      row_(config.embedding_size),
      ones_(config.encoder.feed_forward_size, 1.0f) {}

void EncoderPass::Shape(EncoderText& text) const {
  const EncoderConfig& encoder = config_.encoder;
  const std::size_t heads_width = std::size_t{encoder.head_count} * encoder.head_dim;
  text.stream.Shape(text.tokens.size(), config_.embedding_size);
  text.k.Shape(text.tokens.size(), heads_width);
  text.v.Shape(text.tokens.size(), heads_width);
}

void EncoderPass::Begin(EncoderText& text, std::size_t first_row, std::size_t row_count) {
  KVD_ASSERT(row_count > 0 && row_count <= kRowsMax && first_row + row_count <= text.tokens.size());
  const EncoderConfig& encoder = config_.encoder;
  text_ = &text;
  first_row_ = first_row;
  row_count_ = row_count;
  // Products take the numeric form for the whole text, so that results do not depend on the
  // portions.
  compute_.form_rows = text.tokens.size();
  const std::size_t heads_width = std::size_t{encoder.head_count} * encoder.head_dim;
  projected_.Shape(row_count, config_.embedding_size);
  for (EncoderRows* rows : {&q_, &k_, &v_, &attended_}) rows->Shape(row_count, heads_width);
  hidden_.Shape(row_count, encoder.feed_forward_size);
  const std::size_t wanted =
      std::max(kernels::MatmulWorkspaceFloats(weights_.in_features_max, row_count),
               BidirectionalWorkspaceFloats(encoder.head_dim));
  const std::size_t input_bytes = LinearInputBytes(weights_.in_features_max, row_count);
  if (input_bytes > compute_.input_bytes) {
    inputs_ = FloatBuffer(input_bytes / sizeof(float));
    compute_.inputs = reinterpret_cast<std::byte*>(inputs_.data());
    compute_.input_bytes = input_bytes;
  }
  if (wanted <= compute_.workspace_floats) return;
  compute_.workspace_floats = (wanted + 15) / 16 * 16;
  workspaces_ = FloatBuffer(compute_.workspace_floats * compute_.pool->thread_count());
  compute_.workspaces = workspaces_.data();
}

void EncoderPass::DecodeRow(const WeightView& matrix, std::size_t row, float* out) const {
  const std::size_t row_bytes = kernels::RowBytes(matrix.type, matrix.in_features);
  compute_.kernels->decode_row(matrix.type, matrix.data + row * row_bytes, out, matrix.in_features);
}

void EncoderPass::EmbedTokens() {
  for (std::size_t i = 0; i < row_count_; ++i) {
    const auto token = static_cast<std::size_t>(text_->tokens[first_row_ + i]);
    DecodeRow(weights_.token_embedding, token, stream()[i]);
  }
}

void EncoderPass::AddRow(const WeightView& matrix, std::size_t row, std::size_t token) {
  DecodeRow(matrix, row, row_.data());
  compute_.kernels->add(stream()[token], row_.data(), row_.size(), stream()[token]);
}

void EncoderPass::Norm(const NormWeights& norm) {
  const RowSpan rows = stream();
  ForRows([&](std::size_t row) {
    LayerNorm(rows[row], norm, config_.embedding_size, config_.encoder.norm_epsilon, rows[row]);
  });
}

RowSpan EncoderPass::RmsNormed(const float* weight) {
  const RowSpan rows = stream();
  normed_.Shape(row_count_, config_.embedding_size);
  ForRows([&](std::size_t row) {
    compute_.kernels->rms_norm(rows[row], weight, config_.embedding_size, config_.rms_epsilon,
                               normed_[row]);
  });
  return normed_.From(0);
}

void EncoderPass::RmsNorm(const float* weight) {
  const RowSpan rows = stream();
  ForRows([&](std::size_t row) {
    compute_.kernels->rms_norm(rows[row], weight, config_.embedding_size, config_.rms_epsilon,
                               rows[row]);
  });
}

void EncoderPass::AddToStream(const LinearView& linear, RowSpan x) {
  LinearJob job = Job(linear, x, projected_.From(0));
  job.add_to = stream().rows;
  RunLinear(compute_, {&job, 1}, row_count_);
}

void EncoderPass::MakeKeys(const EncoderLayerWeights& layer, RowSpan x) {
  const EncoderConfig& encoder = config_.encoder;
  const bool is_packed = layer.position_bias.distances == 0;
  const RowSpan k = is_packed ? k_.From(0) : text_->k.From(first_row_);
  const RowSpan v = is_packed ? v_.From(0) : text_->v.From(first_row_);
  const LinearJob projections[] = {Job(layer.k, x, k), Job(layer.v, x, v)};
  RunLinear(compute_, projections, row_count_);
  if (!is_packed) return;
  const PackedRows where{.first_row = first_row_, .row_count = text_->tokens.size()};
  PackHeads(k_[0], row_count_, encoder.head_count, encoder.head_dim, where, text_->k[0]);
  PackHeads(v_[0], row_count_, encoder.head_count, encoder.head_dim, where, text_->v[0]);
}

void EncoderPass::AddAttention(const EncoderLayerWeights& layer, RowSpan x) {
  const EncoderConfig& encoder = config_.encoder;
  const LinearJob projection = Job(layer.q, x, q_.From(0));
  RunLinear(compute_, {&projection, 1}, row_count_);
  const std::size_t key_count = text_->tokens.size();
  if (layer.position_bias.distances != 0) {
    RunPlainTextAttention(compute_,
                          {.head_count = encoder.head_count,
                           .head_dim = encoder.head_dim,
                           .key_count = key_count,
                           .first_row = first_row_,
                           .row_count = row_count_},
                          layer.position_bias, q_[0], text_->k[0], text_->v[0], attended_[0]);
  } else {
    RunBidirectionalAttention(compute_,
                              {.head_count = encoder.head_count,
                               .head_dim = encoder.head_dim,
                               .key_count = key_count,
                               .scale = encoder.attention_scale},
                              row_count_, q_[0], text_->k[0], text_->v[0], attended_[0]);
  }
  AddToStream(layer.out, attended_.From(0));
}

void EncoderPass::AddFeedForward(const EncoderLayerWeights& layer, RowSpan x) {
  const std::size_t width = config_.encoder.feed_forward_size;
  const LinearJob up = Job(layer.up, x, hidden_.From(0));
  RunLinear(compute_, {&up, 1}, row_count_);
  ForRows([&](std::size_t row) {
    compute_.kernels->gelu_multiply(hidden_[row], ones_.data(), width, hidden_[row]);
  });
  AddToStream(layer.down, hidden_.From(0));
}

void EncoderPass::AddT5FeedForward(const EncoderLayerWeights& layer, RowSpan x) {
  const std::size_t width = config_.encoder.feed_forward_size;
  const bool is_gated = static_cast<bool>(layer.gate.weight);
  gate_.Shape(is_gated ? row_count_ : 1, width);
  const LinearJob projections[] = {Job(layer.up, x, hidden_.From(0)),
                                   Job(layer.gate, x, gate_.From(0))};
  RunLinear(compute_, std::span(projections).first(is_gated ? 2 : 1), row_count_);
  ForRows([&](std::size_t row) {
    if (is_gated) {
      compute_.kernels->gelu_multiply(gate_[row], hidden_[row], width, hidden_[row]);
    } else {
      Relu(hidden_[row], width, hidden_[row]);
    }
  });
  AddToStream(layer.down, hidden_.From(0));
}

}  // namespace kvd
