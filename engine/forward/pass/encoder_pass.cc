#include "engine/forward/pass/encoder_pass.h"

#include <algorithm>

#include "base/check.h"
#include "engine/forward/attention/text_attention.h"
#include "engine/forward/compute/linear.h"
#include "engine/forward/compute/row_functions.h"

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
               .choices = kernels::DefaultChoices(kernels),
               .workspaces = nullptr,
               .workspace_floats = 0,
               .inputs = nullptr,
               .input_bytes = 0},
      rope_(config.rope, weights.rope_factors),
      window_rope_(config.window_rope, nullptr),
      slopes_(config.encoder.bias_max == 0.0f
                  ? std::vector<float>()
                  : DistanceSlopes(config.encoder.head_count, config.encoder.bias_max)),
      row_(config.embedding_size),
      ones_(config.encoder.feed_forward_size, 1.0f) {}

void EncoderPass::Shape(EncoderText& text) const {
  const EncoderConfig& encoder = config_.encoder;
  const std::size_t heads_width = std::size_t{encoder.kv_head_count} * encoder.head_dim;
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
  const std::size_t kv_width = std::size_t{encoder.kv_head_count} * encoder.head_dim;
  for (EncoderRows* rows : {&q_, &attended_}) rows->Shape(row_count, heads_width);
  for (EncoderRows* rows : {&k_, &v_}) rows->Shape(row_count, kv_width);
  hidden_.Shape(row_count, encoder.feed_forward_size);
  Reserve(row_count);
}

void EncoderPass::Reserve(std::size_t row_count) {
  const std::size_t wanted =
      std::max(kernels::MatmulWorkspaceFloats(weights_.in_features_max, row_count),
               TextAttentionWorkspaceFloats(config_.encoder.head_dim));
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
    float* const row = stream()[i];
    DecodeRow(weights_.token_embedding, token, row);
    if (config_.embedding_scale == 1.0f) continue;
    compute_.kernels->scale(row, config_.embedding_scale, config_.embedding_size, row);
  }
}

void EncoderPass::AddRow(const WeightView& matrix, std::size_t row, std::size_t token) {
  DecodeRow(matrix, row, row_.data());
  compute_.kernels->add(stream()[token], row_.data(), row_.size(), stream()[token]);
}

void EncoderPass::NormRow(const NormWeights& norm, std::size_t width, const float* x,
                          float* y) const {
  const float epsilon = config_.encoder.norm_epsilon;
  if (epsilon != 0.0f) return LayerNorm(x, norm, width, epsilon, y);
  compute_.kernels->rms_norm(x, norm.weight, width, config_.rms_epsilon, y);
}

void EncoderPass::Norm(const NormWeights& norm) {
  const RowSpan rows = stream();
  ForRows([&](std::size_t row) { NormRow(norm, rows.width, rows[row], rows[row]); });
}

RowSpan EncoderPass::Normed(const NormWeights& norm) {
  const RowSpan rows = stream();
  if (norm.weight == nullptr) return rows;
  normed_.Shape(row_count_, rows.width);
  ForRows([&](std::size_t row) { NormRow(norm, rows.width, rows[row], normed_[row]); });
  return normed_.From(0);
}

void EncoderPass::NormAndRotate(std::size_t layer, const float* norm, std::size_t head_count,
                                const EncoderRows& rows) {
  const EncoderConfig& encoder = config_.encoder;
  if (norm == nullptr && !encoder.has_rope) return;
  const bool has_window = encoder.has_window_in(layer);
  const RopeConfig& rope = has_window ? config_.window_rope : config_.rope;
  const RopeTable& table = has_window ? window_rope_ : rope_;
  const std::size_t pairs = table.pair_count();
  angles_.Shape(row_count_, 2 * pairs);
  ForRows([&](std::size_t row) {
    for (std::size_t head = 0; norm != nullptr && head < head_count; ++head) {
      float* const x = rows[row] + head * encoder.head_dim;
      compute_.kernels->rms_norm(x, norm, encoder.head_dim, config_.rms_epsilon, x);
    }
    if (!encoder.has_rope) return;
    float* const cosine = angles_[row];
    float* const sine = cosine + pairs;
    table.Fill(static_cast<std::int64_t>(first_row_ + row), cosine, sine);
    compute_.kernels->rope(rows[row], head_count, encoder.head_dim, rope.rotated_dim,
                           rope.interleaved, cosine, sine);
  });
}

void EncoderPass::AddToStream(const LinearView& linear, const NormWeights& post_norm, RowSpan x) {
  const RowSpan rows = stream();
  LinearJob job = Job(linear, x, projected_.From(0));
  if (post_norm.weight == nullptr) job.add_to = rows.rows;
  RunLinear(compute_, {&job, 1}, row_count_);
  if (post_norm.weight == nullptr) return;
  ForRows([&](std::size_t row) {
    NormRow(post_norm, rows.width, projected_[row], projected_[row]);
    compute_.kernels->add(rows[row], projected_[row], rows.width, rows[row]);
  });
}

void EncoderPass::MakeKeys(std::size_t layer, RowSpan x) {
  const EncoderConfig& encoder = config_.encoder;
  const EncoderLayerWeights& weights = weights_.encoder.layers[layer];
  const bool is_packed = weights.position_bias.distances == 0;
  const RowSpan k = is_packed ? k_.From(0) : text_->k.From(first_row_);
  const RowSpan v = is_packed ? v_.From(0) : text_->v.From(first_row_);
  const LinearJob projections[] = {Job(weights.k, x, k), Job(weights.v, x, v)};
  RunLinear(compute_, projections, row_count_);
  if (!is_packed) return;
  NormAndRotate(layer, weights.k_norm, encoder.kv_head_count, k_);
  const PackedRows where{.first_row = first_row_, .row_count = text_->tokens.size()};
  PackHeads(k_[0], row_count_, encoder.kv_head_count, encoder.head_dim, where, text_->k[0]);
  PackHeads(v_[0], row_count_, encoder.kv_head_count, encoder.head_dim, where, text_->v[0]);
}

void EncoderPass::AddAttention(std::size_t layer, RowSpan x) {
  const EncoderConfig& encoder = config_.encoder;
  const EncoderLayerWeights& weights = weights_.encoder.layers[layer];
  const LinearJob projection = Job(weights.q, x, q_.From(0));
  RunLinear(compute_, {&projection, 1}, row_count_);
  const std::size_t key_count = text_->tokens.size();
  if (weights.position_bias.distances != 0) {
    RunPlainTextAttention(compute_,
                          {.head_count = encoder.head_count,
                           .head_dim = encoder.head_dim,
                           .key_count = key_count,
                           .first_row = first_row_,
                           .row_count = row_count_},
                          weights.position_bias, q_[0], text_->k[0], text_->v[0], attended_[0]);
  } else {
    NormAndRotate(layer, weights.q_norm, encoder.head_count, q_);
    TextAttentionShape shape{.head_count = encoder.head_count,
                             .kv_head_count = encoder.kv_head_count,
                             .head_dim = encoder.head_dim,
                             .key_count = key_count,
                             .scale = encoder.attention_scale,
                             .first_query = first_row_,
                             .slopes = slopes_};
    if (encoder.has_window_in(layer)) shape.reach_before = shape.reach_after = encoder.reach;
    if (encoder.is_causal) shape.reach_after = 0;
    RunTextAttention(compute_, shape, row_count_, q_[0], text_->k[0], text_->v[0], attended_[0]);
  }
  AddToStream(weights.out, weights.attention_post_norm, attended_.From(0));
}

void EncoderPass::AddFeedForward(std::size_t layer, RowSpan x, TextActivation activation) {
  const EncoderLayerWeights& weights = weights_.encoder.layers[layer];
  const std::size_t width = config_.encoder.feed_forward_size;
  const bool is_gated = static_cast<bool>(weights.gate.weight);
  gate_.Shape(is_gated ? row_count_ : 1, width);
  const LinearJob projections[] = {Job(weights.up, x, hidden_.From(0)),
                                   Job(weights.gate, x, gate_.From(0))};
  RunLinear(compute_, std::span(projections).first(is_gated ? 2 : 1), row_count_);
  const kernels::KernelTable& kernels = *compute_.kernels;
  ForRows([&](std::size_t row) {
    float* const hidden = hidden_[row];
    switch (activation) {
      case TextActivation::kGelu:
        kernels.gelu_multiply(is_gated ? gate_[row] : hidden, is_gated ? hidden : ones_.data(),
                              width, hidden);
        break;
      case TextActivation::kSilu: kernels.silu_multiply(gate_[row], hidden, width, hidden); break;
      case TextActivation::kRelu: Relu(hidden, width, hidden); break;
    }
  });
  AddToStream(weights.down, weights.feed_forward_post_norm, hidden_.From(0));
}

std::vector<float> EncoderPass::Project(const LinearView& linear, const std::vector<float>& x) {
  Reserve(1);
  compute_.form_rows = 1;
  std::vector<float> y(linear.weight.out_features);
  float* const row = y.data();
  const LinearJob job{.linear = &linear, .x = x.data(), .x_stride = x.size(), .y = &row};
  RunLinear(compute_, {&job, 1}, 1);
  return y;
}

}  // namespace kvd
