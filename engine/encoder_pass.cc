#include "engine/encoder_pass.h"

#include <algorithm>

#include "engine/layers/activations.h"
#include "engine/layers/bidirectional_attention.h"
#include "engine/layers/layer_norm.h"
#include "engine/layers/linear.h"
#include "engine/layers/plain_attention.h"

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

void EncoderPass::Begin(std::span<const TokenId> tokens) {
  const EncoderConfig& encoder = config_.encoder;
  tokens_ = tokens;
  const std::size_t heads_width = std::size_t{encoder.head_count} * encoder.head_dim;
  stream_.Shape(tokens.size(), config_.embedding_size);
  projected_.Shape(tokens.size(), config_.embedding_size);
  for (EncoderRows* rows : {&q_, &k_, &v_, &attended_}) rows->Shape(tokens.size(), heads_width);
  hidden_.Shape(tokens.size(), encoder.feed_forward_size);
  packed_k_.resize(tokens.size() * heads_width);
  packed_v_.resize(tokens.size() * heads_width);
  const std::size_t wanted =
      std::max(kernels::MatmulWorkspaceFloats(weights_.in_features_max, tokens.size()),
               BidirectionalWorkspaceFloats(encoder.head_dim));
  const std::size_t input_bytes = LinearInputBytes(weights_.in_features_max, tokens.size());
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
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    DecodeRow(weights_.token_embedding, static_cast<std::size_t>(tokens_[i]), stream_[i]);
  }
}

void EncoderPass::AddRow(const WeightView& matrix, std::size_t row, std::size_t token) {
  DecodeRow(matrix, row, row_.data());
  compute_.kernels->add(stream_[token], row_.data(), row_.size(), stream_[token]);
}

void EncoderPass::Norm(const LayerNormWeights& norm) {
  ForRows([&](std::size_t row) {
    LayerNorm(stream_[row], norm, config_.embedding_size, config_.encoder.norm_epsilon,
              stream_[row]);
  });
}

const EncoderRows& EncoderPass::RmsNormed(const float* weight) {
  normed_.Shape(tokens_.size(), config_.embedding_size);
  ForRows([&](std::size_t row) {
    compute_.kernels->rms_norm(stream_[row], weight, config_.embedding_size, config_.rms_epsilon,
                               normed_[row]);
  });
  return normed_;
}

void EncoderPass::RmsNorm(const float* weight) {
  ForRows([&](std::size_t row) {
    compute_.kernels->rms_norm(stream_[row], weight, config_.embedding_size, config_.rms_epsilon,
                               stream_[row]);
  });
}

void EncoderPass::AddToStream(const LinearView& linear, const EncoderRows& x) {
  const LinearJob job{.linear = &linear,
                      .x = x[0],
                      .x_stride = x.width(),
                      .y = projected_.pointers(),
                      .add_to = stream_.pointers()};
  RunLinear(compute_, {&job, 1}, tokens_.size());
}

void EncoderPass::AddAttention(const EncoderLayerWeights& layer, const EncoderRows& x) {
  const EncoderConfig& encoder = config_.encoder;
  const auto job = [&](const LinearView& linear, const EncoderRows& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const LinearJob projections[] = {job(layer.q, q_), job(layer.k, k_), job(layer.v, v_)};
  RunLinear(compute_, projections, tokens_.size());
  if (layer.position_bias.distances != 0) {
    RunPlainTextAttention(compute_, tokens_.size(), encoder.head_count, encoder.head_dim,
                          layer.position_bias, q_[0], k_[0], v_[0], attended_[0]);
  } else {
    PackHeads(k_[0], tokens_.size(), encoder.head_count, encoder.head_dim, packed_k_.data());
    PackHeads(v_[0], tokens_.size(), encoder.head_count, encoder.head_dim, packed_v_.data());
    RunBidirectionalAttention(compute_,
                              {.head_count = encoder.head_count,
                               .head_dim = encoder.head_dim,
                               .key_count = tokens_.size(),
                               .scale = encoder.attention_scale},
                              tokens_.size(), q_[0], packed_k_.data(), packed_v_.data(),
                              attended_[0]);
  }
  AddToStream(layer.out, attended_);
}

void EncoderPass::AddFeedForward(const EncoderLayerWeights& layer, const EncoderRows& x) {
  const std::size_t width = config_.encoder.feed_forward_size;
  const LinearJob up{
      .linear = &layer.up, .x = x[0], .x_stride = x.width(), .y = hidden_.pointers()};
  RunLinear(compute_, {&up, 1}, tokens_.size());
  ForRows([&](std::size_t row) {
    compute_.kernels->gelu_multiply(hidden_[row], ones_.data(), width, hidden_[row]);
  });
  AddToStream(layer.down, hidden_);
}

void EncoderPass::AddT5FeedForward(const EncoderLayerWeights& layer, const EncoderRows& x) {
  const std::size_t width = config_.encoder.feed_forward_size;
  const bool is_gated = static_cast<bool>(layer.gate.weight);
  if (is_gated) gate_.Shape(tokens_.size(), width);
  const auto job = [&](const LinearView& linear, const EncoderRows& y) {
    return LinearJob{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  };
  const LinearJob projections[] = {job(layer.up, hidden_), job(layer.gate, gate_)};
  RunLinear(compute_, std::span(projections).first(is_gated ? 2 : 1), tokens_.size());
  ForRows([&](std::size_t row) {
    if (is_gated) {
      compute_.kernels->gelu_multiply(gate_[row], hidden_[row], width, hidden_[row]);
    } else {
      Relu(hidden_[row], width, hidden_[row]);
    }
  });
  AddToStream(layer.down, hidden_);
}

}  // namespace kvd
