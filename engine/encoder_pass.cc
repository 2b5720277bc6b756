#include "engine/encoder_pass.h"

#include <algorithm>

#include "engine/layers/bidirectional_attention.h"
#include "engine/layers/layer_norm.h"
#include "engine/layers/linear.h"

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
               .workspace_floats = 0},
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

void EncoderPass::AddAttention(const EncoderLayerWeights& layer) {
  const EncoderConfig& encoder = config_.encoder;
  const auto job = [&](const LinearView& linear, const EncoderRows& y) {
    return LinearJob{
        .linear = &linear, .x = stream_[0], .x_stride = stream_.width(), .y = y.pointers()};
  };
  const LinearJob projections[] = {job(layer.q, q_), job(layer.k, k_), job(layer.v, v_)};
  RunLinear(compute_, projections, tokens_.size());
  PackHeads(k_[0], tokens_.size(), encoder.head_count, encoder.head_dim, packed_k_.data());
  PackHeads(v_[0], tokens_.size(), encoder.head_count, encoder.head_dim, packed_v_.data());
  RunBidirectionalAttention(compute_,
                            {.head_count = encoder.head_count,
                             .head_dim = encoder.head_dim,
                             .key_count = tokens_.size(),
                             .scale = encoder.attention_scale},
                            tokens_.size(), q_[0], packed_k_.data(), packed_v_.data(),
                            attended_[0]);
  const LinearJob out{.linear = &layer.out,
                      .x = attended_[0],
                      .x_stride = attended_.width(),
                      .y = projected_.pointers(),
                      .add_to = stream_.pointers()};
  RunLinear(compute_, {&out, 1}, tokens_.size());
}

void EncoderPass::AddFeedForward(const EncoderLayerWeights& layer) {
  const std::size_t width = config_.encoder.feed_forward_size;
  const LinearJob up{
      .linear = &layer.up, .x = stream_[0], .x_stride = stream_.width(), .y = hidden_.pointers()};
  RunLinear(compute_, {&up, 1}, tokens_.size());
  ForRows([&](std::size_t row) {
    compute_.kernels->gelu_multiply(hidden_[row], ones_.data(), width, hidden_[row]);
  });
  const LinearJob down{.linear = &layer.down,
                       .x = hidden_[0],
                       .x_stride = hidden_.width(),
                       .y = projected_.pointers(),
                       .add_to = stream_.pointers()};
  RunLinear(compute_, {&down, 1}, tokens_.size());
}

}  // namespace kvd
