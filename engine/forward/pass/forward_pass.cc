#include "engine/forward/pass/forward_pass.h"

#include <algorithm>

#include "base/check.h"
#include "base/rounding.h"
#include "engine/forward/compute/row_functions.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/model/model_format.h"

namespace kvd {

std::vector<std::size_t> StateOffsets(const ModelConfig& config) {
  std::vector<std::size_t> offsets = {0};
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    offsets.push_back(offsets.back() + RoundUp(StateFloatsOf(config, layer), 16));
  }
  return offsets;
}

std::size_t StateFloats(const ModelConfig& config) { return StateOffsets(config).back(); }

ForwardPass::ForwardPass(const ModelConfig& config, const ModelWeights& weights,
                         const CellLayout& cells, const kernels::KernelTable& kernels,
                         ThreadPool& pool, bool exact, std::size_t row_count_max,
                         StepProfile* profile)
    : config_(config),
      weights_(weights),
      cells_(cells),
      row_count_max_(row_count_max),
      ropes_(config, weights),
      state_offsets_(StateOffsets(config)),
      expert_work_(config.experts, row_count_max),
      ones_(std::max(config.head_dim_v, config.window_head_dim), 1.0f) {
  const std::size_t plan_count = ropes_.kind_count();
  plans_.resize(plan_count);
  reaches_.resize(plan_count);
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    if (config.window[layer] == 0) continue;
    reaches_[1].window = config.window[layer];
    reaches_[1].group = cells.groups[layer];
  }
  tilings_.assign(plan_count, NoTiling(pool.thread_count()));
  key_cosine_.resize(plan_count);
  key_sine_.resize(plan_count);
  std::size_t workspace = kernels::MatmulWorkspaceFloats(weights.in_features_max, row_count_max);
  for (std::size_t layer = 0; layer < config.layer_count; ++layer) {
    if (config.kv_head_count[layer] == 0) continue;
    const AttentionShape shape = ShapeOf(layer);
    IncludeLayer(shape, &tilings_[kind(layer)]);
    workspace = std::max(workspace, AttentionWorkspaceFloats(shape));
  }
  workspace = RoundUp(workspace, 16);
  const std::size_t input_bytes = LinearInputBytes(weights.in_features_max, row_count_max);
  inputs_ = FloatBuffer(input_bytes / sizeof(float));
  workspaces_ = FloatBuffer(workspace * pool.thread_count());
  compute_ = {.kernels = &kernels,
              .pool = &pool,
              .exact = exact,
              .choices = kernels::DefaultChoices(kernels),
              .workspaces = workspaces_.data(),
              .workspace_floats = workspace,
              .inputs = reinterpret_cast<std::byte*>(inputs_.data()),
              .input_bytes = input_bytes,
              .profile = profile};
  stream_.Shape(row_count_max, config.embedding_size);
}

void ForwardPass::Begin(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items) {
  KVD_ASSERT(items.size() == plan.count);
  plan_ = &plan;
  memory_ = &memory;
  items_ = items;
  sequences_.clear();
  row_count_ = 0;
  for (std::size_t s = 0; s < plan.count; ++s) {
    sequences_.push_back({row_count_, plan.sequences[s].new_cells});
    row_count_ += plan.sequences[s].new_cells;
  }
  KVD_ASSERT(row_count_ <= row_count_max_);
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    plans_[i].Build(plan, memory, ropes_, i, reaches_[i], tilings_[i]);
  }
  FillKeyAngles();
  ClearStateEnds();
}

void ForwardPass::ClearStateEnds() {
  for (const ForwardItem& item : items_) {
    if (item.state_to == nullptr) continue;
    auto* const state = reinterpret_cast<float*>(item.state_to);
    for (std::size_t layer = 0; layer < config_.layer_count; ++layer) {
      std::fill(state + state_offsets_[layer] + StateFloatsOf(config_, layer),
                state + state_offsets_[layer + 1], 0.0f);
    }
  }
}

void ForwardPass::FillKeyAngles() {
  for (std::size_t i = 0; i < ropes_.kind_count(); ++i) {
    const std::size_t pairs = ropes_.pair_count(i);
    key_cosine_[i].resize(row_count_max_ * pairs);
    key_sine_[i].resize(row_count_max_ * pairs);
    for (std::size_t s = 0; s < plan_->count; ++s) {
      const StepSequence& sequence = plan_->sequences[s];
      const std::int32_t delta = sequence.groups[0].extents.back().delta;
      const RopeTable& rope = ropes_.table(i, sequence.key_form);
      for (std::size_t row = 0; row < sequence.new_cells; ++row) {
        const std::size_t at = (sequences_[s].first_row + row) * pairs;
        rope.Fill(
            std::int64_t{sequence.first_new_pos.value} + static_cast<std::int64_t>(row) - delta,
            key_cosine_[i].data() + at, key_sine_[i].data() + at);
      }
    }
  }
}

LayerState ForwardPass::State(std::size_t sequence, std::size_t layer) const {
  const ForwardItem& item = items_[sequence];
  const std::size_t offset = state_offsets_[layer];
  KVD_ASSERT(item.state_to != nullptr && offset < state_offsets_[layer + 1]);
  return {.from = item.state_from == nullptr
                      ? nullptr
                      : reinterpret_cast<const float*>(item.state_from) + offset,
          .to = reinterpret_cast<float*>(item.state_to) + offset};
}

const RowBuffer& ForwardPass::Rows(Scratch role, RowShape shape) {
  RowBuffer& rows = scratch_[static_cast<std::size_t>(role)];
  rows.Shape(row_count_max_, shape.outer * shape.inner);
  return rows;
}

void ForwardPass::NormRow(const float* x, const NormWeights& weights, std::size_t n,
                          float* y) const {
  if (config_.has_layer_norms) return LayerNorm(x, weights, n, config_.layer_norm_epsilon, y);
  compute_.kernels->rms_norm(x, weights.weight, n, config_.rms_epsilon, y);
  if (weights.bias != nullptr) compute_.kernels->add(y, weights.bias, n, y);
}

const RowBuffer& ForwardPass::NormedStream(const NormWeights& weights, Scratch role) {
  if (weights.weight == nullptr) return stream_;
  const StepProfile::Scope scope(compute_.profile, StepPhase::kNorms);
  const RowBuffer& normed = Rows(role, {config_.embedding_size});
  ForRows(row_count_, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      NormRow(stream_[row], weights, config_.embedding_size, normed[row]);
    }
  });
  return normed;
}

void ForwardPass::Project(const LinearView& linear, const RowBuffer& x, const RowBuffer& y) {
  const LinearJob job{.linear = &linear, .x = x[0], .x_stride = x.width(), .y = y.pointers()};
  RunLinear(compute_, {&job, 1}, row_count_);
}

void ForwardPass::AddToStream(const LinearView& linear, const RowBuffer& x,
                              const float* post_norm) {
  const std::size_t width = config_.embedding_size;
  const RowBuffer& projected = Rows(Scratch::kProjected, {width});
  const bool adds_at_once = post_norm == nullptr && config_.residual_scale == 1.0f;
  const LinearJob job{.linear = &linear,
                      .x = x[0],
                      .x_stride = x.width(),
                      .y = projected.pointers(),
                      .add_to = adds_at_once ? stream_.pointers() : nullptr};
  RunLinear(compute_, {&job, 1}, row_count_);
  if (!adds_at_once) AddRowsToStream(projected, post_norm);
}

void ForwardPass::AddRowsToStream(const RowBuffer& rows, const float* post_norm) {
  const std::size_t width = config_.embedding_size;
  ForRows(row_count_, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* y = rows[row];
      if (post_norm != nullptr) {
        compute_.kernels->rms_norm(y, post_norm, width, config_.rms_epsilon, y);
      }
      if (config_.residual_scale != 1.0f) {
        compute_.kernels->scale(y, config_.residual_scale, width, y);
      }
      compute_.kernels->add(stream_[row], y, width, stream_[row]);
    }
  });
}

AttentionShape ForwardPass::ShapeOf(std::size_t layer) const {
  const RopeConfig& rope = config_.rope_of(layer);
  return {.layer = config_.cells_of(layer),
          .head_count = config_.head_count[layer],
          .kv_head_count = config_.kv_head_count[layer],
          .head_dim_k = config_.key_dim(layer),
          .head_dim_v = config_.value_dim(layer),
          .rotated_dim = config_.rotates(layer) ? rope.rotated_dim : 0,
          .first_rotated = rope.first_rotated,
          .rope_interleaved = rope.interleaved,
          .scale = config_.attention_scale,
          .softcap = config_.attention_softcap};
}

const float* ForwardPass::KeyCosine(std::size_t layer, std::size_t row) const {
  const std::size_t i = kind(layer);
  return key_cosine_[i].data() + row * ropes_.pair_count(i);
}

const float* ForwardPass::KeySine(std::size_t layer, std::size_t row) const {
  const std::size_t i = kind(layer);
  return key_sine_[i].data() + row * ropes_.pair_count(i);
}

}  // namespace kvd
