// ForwardPass: what the code of a layer sees of one ubatch: config, weights, the rows of the
// residual stream, room for intermediate rows, its sequences, and the recurrent state of each.
//
// Owned by Forward, used on the engine thread; a layer hands work to the threads of compute().
// Buffers grow to the largest ubatch once and stay: nothing is allocated per token.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/compute.h"
#include "engine/layers/attention.h"
#include "engine/layers/linear.h"
#include "engine/memory/memory.h"
#include "engine/model_config.h"
#include "engine/model_ropes.h"
#include "engine/model_weights.h"

namespace kvd {

// One sequence's part of a ubatch beside its StepSequence of the same index.
struct ForwardItem {
  std::size_t first_logits_row = 0;       // of its rows; its row count: none
  float* logits = nullptr;                // [rows wanted, vocab_size]
  const std::byte* state_from = nullptr;  // recurrent state before its first row; null: zeros
  std::byte* state_to = nullptr;          // where the state after its last row goes
  bool writes_cells = true;               // false: a replay, K and V of its rows are in the pool
  bool finite = true;  // out: false if a key, value, state or logit was not finite
};

// The rows of one sequence in the ubatch: [first_row, first_row + row_count).
struct SequenceRows {
  std::size_t first_row = 0;
  std::size_t row_count = 0;
};

// The recurrent state of one layer of one sequence; StateFloats of that layer each.
struct LayerState {
  const float* from = nullptr;  // null: zeros
  float* to = nullptr;          // all of it is written; never overlaps `from`
};

// Rows of f32 back to back.
class RowBuffer {
 public:
  float* operator[](std::size_t row) const { return pointers_[row]; }
  float* const* pointers() const { return pointers_.data(); }
  std::size_t width() const { return width_; }

 private:
  friend class ForwardPass;
  void Shape(std::size_t row_count_max, std::size_t width);

  FloatBuffer buffer_;
  std::size_t capacity_ = 0;  // floats
  std::size_t width_ = 0;
  std::vector<float*> pointers_;
};

// Names of intermediate rows. A layer may use those it likes; what they held is lost when the next
// layer asks for them.
enum class Scratch : std::uint8_t {
  kNormed,
  kQ,
  kK,
  kV,
  kAttended,
  kProjected,
  kGate,
  kUp,
  kA,
  kB,
  kC,
  kD,
  kE,
  kF,
  kG,
  kH,
};
inline constexpr std::size_t kScratchCount = 16;

class ForwardPass {
 public:
  // The arguments outlive the object. profile: where the time of Forward::Run goes.
  ForwardPass(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
              const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
              std::size_t row_count_max, StepProfile* profile);

  // ---- the model
  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const Compute& compute() const { return compute_; }
  const CellLayout& cells() const { return cells_; }

  // ---- the ubatch
  std::size_t row_count() const { return row_count_; }
  std::span<const SequenceRows> sequences() const { return sequences_; }
  const StepPlan& plan() const { return *plan_; }
  Memory& memory() const { return *memory_; }
  ForwardItem& item(std::size_t sequence) const { return items_[sequence]; }
  bool IsRecurrent(std::size_t layer) const {
    return state_offsets_[layer] < state_offsets_[layer + 1];
  }
  // REQUIRES: the layer is recurrent.
  LayerState State(std::size_t sequence, std::size_t layer) const;

  // ---- rows
  const RowBuffer& stream() const { return stream_; }  // [rows, embedding_size]: residual stream
  // Rows of this width, of unknown content.
  const RowBuffer& Rows(Scratch name, std::size_t width);
  // kNormed = rms_norm(stream) * weight.
  const RowBuffer& NormedStream(const float* weight);
  // y = linear(x), rows of the right widths.
  void Project(const LinearView& linear, const RowBuffer& x, const RowBuffer& y);
  // stream += residual_scale * norm(linear(x)); no norm where post_norm is null.
  void AddToStream(const LinearView& linear, const RowBuffer& x, const float* post_norm = nullptr);
  // task(first_row, last_row) over rows [0, row_count), on several threads where there are many.
  template <class Task>
  void ForRows(std::size_t row_count, const Task& task) {
    compute_.pool->Run((row_count + kRowsPerUnit - 1) / kRowsPerUnit,
                       [&](std::uint32_t, std::size_t unit) {
                         task(unit * kRowsPerUnit, std::min(row_count, (unit + 1) * kRowsPerUnit));
                       });
  }

  // task(unit) for units [0, unit_count), on several threads where `operations` (of all units
  // together) are worth waking them.
  template <class Task>
  void ForUnits(std::size_t unit_count, std::size_t operations, const Task& task) {
    if (operations < kInlineOperations) {
      for (std::size_t unit = 0; unit < unit_count; ++unit) task(unit);
      return;
    }
    compute_.pool->Run(unit_count, [&](std::uint32_t, std::size_t unit) { task(unit); });
  }
  // Marks the sequence's item if one of the numbers is not finite. Any thread of a task.
  void CheckFinite(std::size_t sequence, const float* x, std::size_t count) const {
    if (compute_.kernels->all_finite(x, count)) return;
    std::atomic_ref(items_[sequence].finite).store(false, std::memory_order_relaxed);
  }

  // ---- attention
  AttentionShape ShapeOf(std::size_t layer) const;
  const AttentionPlan& attention_plan(std::size_t layer) const { return plans_[kind(layer)]; }
  // Rotation of the key of a row at its stored position: [pairs of the layer's rope].
  const float* KeyCosine(std::size_t layer, std::size_t row) const;
  const float* KeySine(std::size_t layer, std::size_t row) const;
  const ModelRopes& ropes() const { return ropes_; }

 private:
  friend class Forward;
  static constexpr std::size_t kRowsPerUnit = 16;
  static constexpr std::size_t kInlineOperations = 64 * 1024;
  // Takes a new ubatch; the stream is not filled yet.
  void Begin(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items);
  void FillKeyAngles();
  // Zeros behind the states of layers whose length is no multiple of a cache line.
  void ClearStateEnds();
  std::size_t kind(std::size_t layer) const { return ModelRopes::KindOf(config_, layer); }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const CellLayout& cells_;
  Compute compute_;
  FloatBuffer workspaces_;
  FloatBuffer inputs_;
  const std::size_t row_count_max_;
  const ModelRopes ropes_;
  std::vector<std::size_t> state_offsets_;  // per layer, in floats; and an end

  const StepPlan* plan_ = nullptr;
  Memory* memory_ = nullptr;
  std::span<ForwardItem> items_;
  std::vector<SequenceRows> sequences_;
  std::size_t row_count_ = 0;

  RowBuffer stream_;
  std::array<RowBuffer, kScratchCount> scratch_;

  // Per kind of layer (ModelRopes).
  std::vector<AttentionPlan> plans_;
  std::vector<AttentionReach> reaches_;
  std::vector<AttentionTiling> tilings_;
  std::vector<std::vector<float>> key_cosine_;  // [rows, pairs]
  std::vector<std::vector<float>> key_sine_;
};

// Floats of the recurrent state of one sequence in all layers; 0: the model keeps none.
std::size_t StateFloats(const ModelConfig& config);
// Per layer where its state starts in that of all layers, in floats, on a cache line; and an end.
std::vector<std::size_t> StateOffsets(const ModelConfig& config);

}  // namespace kvd
