// Reads as the paper does: for each layer, x += Attention(Norm(x)), x += FeedForward(Norm(x)); then
// Output(Norm(x)). (Touvron et al. 2023; Vaswani et al. 2017.) Rows of all sequences go through the
// products together.
#include "engine/forward.h"

#include <algorithm>
#include <cstring>

#include "shm/check.h"

namespace kvd {
namespace {

// Rows of f32 work handed to one thread at a time.
constexpr std::size_t kRowsPerUnit = 16;

std::size_t RoundUp(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// task(first_row, last_row) over all rows, on several threads where there are many.
template <class Task>
void ForRows(ThreadPool& pool, std::size_t row_count, const Task& task) {
  pool.Run((row_count + kRowsPerUnit - 1) / kRowsPerUnit, [&](std::uint32_t, std::size_t unit) {
    task(unit * kRowsPerUnit, std::min(row_count, (unit + 1) * kRowsPerUnit));
  });
}

AttentionShape ShapeOf(const ModelConfig& config, std::size_t layer) {
  return {.layer = layer,
          .head_count = config.head_count[layer],
          .kv_head_count = config.kv_head_count[layer],
          .head_dim_k = config.head_dim_k,
          .head_dim_v = config.head_dim_v,
          .rotated_dim = config.rope.rotated_dim,
          .rope_interleaved = config.rope.interleaved,
          .scale = config.attention_scale};
}

}  // namespace

void Forward::Rows::Allocate(std::size_t row_count_max, std::size_t width) {
  // Attention and the kernels take rows back to back.
  stride = width;
  buffer = FloatBuffer(row_count_max * stride);
  pointers.resize(row_count_max);
  for (std::size_t row = 0; row < row_count_max; ++row)
    pointers[row] = buffer.data() + row * stride;
}

Forward::Forward(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
                 const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
                 std::size_t row_count_max)
    : config_(config), weights_(weights), cells_(cells), rope_(config.rope, weights.rope_factors) {
  std::size_t q_width = 0, k_width = 0, v_width = 0, attended_width = 0, ffn_width = 0,
              workspace = 0;
  std::size_t in_features = config.embedding_size;
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    const AttentionShape shape = ShapeOf(config, layer);
    q_width = std::max(q_width, shape.head_count * shape.head_dim_k);
    k_width = std::max(k_width, shape.kv_head_count * shape.head_dim_k);
    v_width = std::max(v_width, shape.kv_head_count * shape.head_dim_v);
    attended_width = std::max(attended_width, shape.head_count * shape.head_dim_v);
    ffn_width = std::max<std::size_t>(ffn_width, config.feed_forward_size[layer]);
    workspace = std::max(workspace, AttentionWorkspaceFloats(shape));
    tile_rows_ = std::min(tile_rows_, AttentionTileRows(shape.head_count / shape.kv_head_count));
  }
  in_features = std::max({in_features, attended_width, ffn_width});
  workspace =
      RoundUp(std::max(workspace, kernels::MatmulWorkspaceFloats(in_features, row_count_max)), 16);
  workspaces_ = FloatBuffer(workspace * pool.thread_count());
  compute_ = {.kernels = &kernels,
              .pool = &pool,
              .exact = exact,
              .workspaces = workspaces_.data(),
              .workspace_floats = workspace};

  stream_.Allocate(row_count_max, config.embedding_size);
  normed_.Allocate(row_count_max, config.embedding_size);
  q_.Allocate(row_count_max, q_width);
  k_.Allocate(row_count_max, k_width);
  v_.Allocate(row_count_max, v_width);
  attended_.Allocate(row_count_max, attended_width);
  projected_.Allocate(row_count_max, config.embedding_size);
  gate_.Allocate(row_count_max, ffn_width);
  up_.Allocate(row_count_max, ffn_width);
  key_cosine_.resize(row_count_max * rope_.pair_count());
  key_sine_.resize(row_count_max * rope_.pair_count());
  logits_input_.reserve(row_count_max);
  logits_output_.reserve(row_count_max);
}

void Forward::Run(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items) {
  KVD_ASSERT(items.size() == plan.count);
  Embed(plan);
  attention_plan_.Build(plan, memory, rope_, tile_rows_);
  for (std::size_t layer = 0; layer < config_.layer_count; ++layer) {
    Attention(plan, memory, layer, items);
    FeedForward(layer);
  }
  Logits(items);
}

// stream[row] = token embedding; also the rotation of each new key.
void Forward::Embed(const StepPlan& plan) {
  const WeightView& embedding = weights_.token_embedding;
  const std::size_t row_bytes = kernels::RowBytes(embedding.type, embedding.in_features);
  std::size_t row = 0;
  for (std::size_t s = 0; s < plan.count; ++s) {
    const StepSequence& sequence = plan.sequences[s];
    const std::int32_t delta = sequence.extents.back().delta;
    for (std::size_t i = 0; i < sequence.new_cells; ++i, ++row) {
      compute_.kernels->decode_row(
          embedding.type, embedding.data + static_cast<std::size_t>(sequence.tokens[i]) * row_bytes,
          stream_[row], embedding.in_features);
      rope_.Fill(std::int64_t{sequence.first_new_pos.value} + static_cast<std::int64_t>(i) - delta,
                 key_cosine_.data() + row * rope_.pair_count(),
                 key_sine_.data() + row * rope_.pair_count());
    }
  }
  row_count_ = row;
}

void Forward::Norm(const float* const* rows, std::size_t row_count, const float* weight,
                   float* const* out) {
  ForRows(*compute_.pool, row_count, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      compute_.kernels->rms_norm(rows[row], weight, config_.embedding_size, config_.rms_epsilon,
                                 out[row]);
    }
  });
}

// Rotates the new keys for their stored positions and encodes both into the cells reserved for
// them.
void Forward::StoreKeysAndValues(const StepPlan& plan, Memory& memory, std::size_t layer,
                                 std::span<ForwardItem> items) {
  const AttentionShape shape = ShapeOf(config_, layer);
  std::size_t row = 0;
  for (std::size_t s = 0; s < plan.count; ++s) {
    const StepSequence& sequence = plan.sequences[s];
    bool finite = true;
    std::size_t extent = sequence.first_new_extent;
    for (std::size_t i = 0; i < sequence.new_cells; ++i, ++row) {
      const std::size_t cell = sequence.past_cells + i;
      while (extent + 1 < sequence.extents.size() && sequence.extents[extent + 1].start <= cell)
        ++extent;
      const layout::Extent& home = sequence.extents[extent];
      std::byte* block = memory.BlockBytes(BlockId{home.block});
      const std::size_t block_cell = home.first + (cell - home.start);
      compute_.kernels->rope(k_[row], shape.kv_head_count, shape.head_dim_k, shape.rotated_dim,
                             shape.rope_interleaved, key_cosine_.data() + row * rope_.pair_count(),
                             key_sine_.data() + row * rope_.pair_count());
      for (std::size_t head = 0; head < shape.kv_head_count; ++head) {
        finite &= compute_.kernels->encode_row(cells_.k_type, k_[row] + head * shape.head_dim_k,
                                               block + cells_.KRow(layer, head, block_cell),
                                               shape.head_dim_k);
        finite &= compute_.kernels->encode_row(cells_.v_type, v_[row] + head * shape.head_dim_v,
                                               block + cells_.VRow(layer, head, block_cell),
                                               shape.head_dim_v);
      }
    }
    items[s].finite = items[s].finite && finite;
  }
}

// stream += O(attention(Q(x), K(x), V(x))), x = norm(stream)
void Forward::Attention(const StepPlan& plan, Memory& memory, std::size_t layer,
                        std::span<ForwardItem> items) {
  const LayerWeights& weights = weights_.layers[layer];
  const AttentionShape shape = ShapeOf(config_, layer);
  Norm(stream_.pointers.data(), row_count_, weights.attn_norm, normed_.pointers.data());
  // Rows of q, k and v lie back to back, at this layer's own widths.
  const auto spread = [&](Rows& rows, std::size_t width) {
    for (std::size_t row = 0; row < row_count_; ++row)
      rows.pointers[row] = rows.buffer.data() + row * width;
  };
  spread(q_, shape.head_count * shape.head_dim_k);
  spread(k_, shape.kv_head_count * shape.head_dim_k);
  spread(v_, shape.kv_head_count * shape.head_dim_v);
  spread(attended_, shape.head_count * shape.head_dim_v);
  const LinearJob projections[] = {
      {.linear = &weights.q, .x = normed_[0], .x_stride = normed_.stride, .y = q_.pointers.data()},
      {.linear = &weights.k, .x = normed_[0], .x_stride = normed_.stride, .y = k_.pointers.data()},
      {.linear = &weights.v, .x = normed_[0], .x_stride = normed_.stride, .y = v_.pointers.data()}};
  RunLinear(compute_, projections, row_count_);
  if (weights.q_norm != nullptr || weights.k_norm != nullptr) {
    ForRows(*compute_.pool, row_count_, [&](std::size_t first, std::size_t last) {
      const auto norm_heads = [&](float* heads, std::size_t head_count, const float* weight) {
        if (weight == nullptr) return;
        for (std::size_t head = 0; head < head_count; ++head) {
          float* x = heads + head * shape.head_dim_k;
          compute_.kernels->rms_norm(x, weight, shape.head_dim_k, config_.rms_epsilon, x);
        }
      };
      for (std::size_t row = first; row < last; ++row) {
        norm_heads(q_[row], shape.head_count, weights.q_norm);
        norm_heads(k_[row], shape.kv_head_count, weights.k_norm);
      }
    });
  }
  StoreKeysAndValues(plan, memory, layer, items);
  RunAttention(compute_, attention_plan_, cells_, shape, q_[0], attended_[0]);
  const LinearJob out{.linear = &weights.attn_out,
                      .x = attended_[0],
                      .x_stride = shape.head_count * shape.head_dim_v,
                      .y = projected_.pointers.data(),
                      .add_to = stream_.pointers.data()};
  RunLinear(compute_, {&out, 1}, row_count_);
}

// stream += Down(silu(Gate(x)) * Up(x)), x = norm(stream)   (SwiGLU: Shazeer 2020)
void Forward::FeedForward(std::size_t layer) {
  const LayerWeights& weights = weights_.layers[layer];
  const std::size_t width = config_.feed_forward_size[layer];
  Norm(stream_.pointers.data(), row_count_, weights.ffn_norm, normed_.pointers.data());
  const LinearJob projections[] = {{.linear = &weights.gate,
                                    .x = normed_[0],
                                    .x_stride = normed_.stride,
                                    .y = gate_.pointers.data()},
                                   {.linear = &weights.up,
                                    .x = normed_[0],
                                    .x_stride = normed_.stride,
                                    .y = up_.pointers.data()}};
  RunLinear(compute_, projections, row_count_);
  ForRows(*compute_.pool, row_count_, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      compute_.kernels->silu_multiply(gate_[row], up_[row], width, gate_[row]);
    }
  });
  const LinearJob down{.linear = &weights.down,
                       .x = gate_[0],
                       .x_stride = gate_.stride,
                       .y = projected_.pointers.data(),
                       .add_to = stream_.pointers.data()};
  RunLinear(compute_, {&down, 1}, row_count_);
}

// The last product writes each wanted row to the address that its item names.
void Forward::Logits(std::span<ForwardItem> items) {
  logits_input_.clear();
  logits_output_.clear();
  std::size_t row = 0;
  for (std::size_t s = 0; s < items.size(); ++s) {
    const std::size_t rows = attention_plan_.sequences[s].row_count;
    for (std::size_t i = items[s].first_logits_row; i < rows; ++i) {
      logits_input_.push_back(stream_[row + i]);
      logits_output_.push_back(items[s].logits +
                               (i - items[s].first_logits_row) * config_.vocab_size);
    }
    row += rows;
  }
  if (logits_output_.empty()) return;
  Norm(logits_input_.data(), logits_input_.size(), weights_.output_norm, normed_.pointers.data());
  const LinearJob output{.linear = &weights_.output,
                         .x = normed_[0],
                         .x_stride = normed_.stride,
                         .y = logits_output_.data()};
  RunLinear(compute_, {&output, 1}, logits_output_.size());
  std::size_t next = 0;
  for (std::size_t s = 0; s < items.size(); ++s) {
    const std::size_t rows = attention_plan_.sequences[s].row_count;
    for (std::size_t i = items[s].first_logits_row; i < rows; ++i, ++next) {
      items[s].finite =
          items[s].finite && compute_.kernels->all_finite(logits_output_[next], config_.vocab_size);
    }
  }
}

}  // namespace kvd
