// ForwardPass: the interface to a layer's code: config, weights, the rows of the ubatch's residual
// stream, buffers for intermediate rows, the sequences of the ubatch, and the recurrent state of
// each sequence.
//
// Owned by Decoder and used on the engine thread; layers give work to the threads of compute(). The
// buffers of a pass grow to the largest ubatch once and keep their size, so nothing is allocated
// per token.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/attention/attention.h"
#include "engine/forward/compute/compute.h"
#include "engine/forward/compute/linear.h"
#include "engine/forward/pass/row_buffer.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/model/rope_table.h"

namespace kvd {

// One sequence's part of a ubatch, in addition to the StepSequence of the same index.
struct ForwardItem {
  // The first row of the sequence whose logits are requested; the sequence's row count: no row.
  std::size_t first_logits_row = 0;
  float* logits = nullptr;                // [requested rows, vocab_size]
  const std::byte* state_from = nullptr;  // recurrent state before its first row; null: zeros
  std::byte* state_to = nullptr;          // recurrent state after its last row; written
  bool writes_cells = true;  // false: a replay; K and V of the rows are already in the pool
  bool finite = true;        // out: false if a key, value, state or logit was not finite
};

// The rows of one sequence in the ubatch: [first_row, first_row + row_count).
struct SequenceRows {
  std::size_t first_row = 0;
  std::size_t row_count = 0;
};

// The recurrent state of one layer of one sequence: StateFloatsOf(config, layer) floats each.
struct LayerState {
  const float* from = nullptr;  // state before the ubatch; null: zeros
  float* to = nullptr;          // state after the ubatch, written completely; never overlaps `from`
};

// The shape of one row of a buffer: {heads, head_dim}, or {width}.
struct RowShape {
  std::size_t outer;
  std::size_t inner = 1;
};

// What the rows of a buffer hold; each role has one buffer. The content of a buffer is undefined
// after the next layer requests it, unless the role's comment says that it is kept.
enum class Scratch : std::uint8_t {
  kNormed,            // the stream after a norm
  kFeedForwardInput,  // the stream after another norm, if attention runs in parallel
  kQ,                 // queries, keys and values
  kK,
  kV,
  kAngles,       // cosines and sines of a rotation of each row
  kMixerInput,   // a product that a mixer divides into several inputs
  kConvolved,    // the mixer's input after its convolution
  kScanInput,    // further inputs of a scan
  kDecay,        // decay of the state, for each row
  kRate,         // time step or rate at which the state takes new values, for each row
  kMixerOutput,  // the result of attention or of a recurrent mixer
  kGate,         // the gate of a feed-forward or of a mixer's output
  kUp,           // hidden rows of a feed-forward or of a low-rank product
  kProjected,    // a product that is to be added to the stream
  kShift,        // difference of each token from the previous token (RWKV)
  // Mixes of each token with the previous token, by their use (RWKV); queries, keys and values
  // before their convolutions, and low-rank rows (Kimi Delta Attention).
  kForReceptance,
  kForDecay,
  kForKey,
  kForValue,
  kForRate,
  kForGate,
  kRouterLogits,   // logits of each expert
  kRouterScratch,  // probabilities of the experts
  kExpertSum,      // weighted sum of the experts' results
  kLatent,         // the input of latent experts, of expanded keys and values, of low-rank queries
  kLatentQ,        // queries in the space of latent keys
  kFirstValues,    // values of the first layer, kept for the following layers (RWKV-7)
  kLayerInputs,    // inputs of all layers, kept for the layers (Gemma 3n)
  kStreams,        // all parallel streams, kept for the next layer (Gemma 3n)
  kPredictions,    // the streams as the layer predicts them, kept within the layer
};
inline constexpr std::size_t kScratchCount = static_cast<std::size_t>(Scratch::kPredictions) + 1;

class ForwardPass {
 public:
  // The arguments must outlive the ForwardPass. `profile` receives the times of Decoder::Run.
  ForwardPass(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
              const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
              std::size_t row_count_max, StepProfile* profile);

  // ---- the model
  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  const Compute& compute() const { return compute_; }
  void UseChoices(const kernels::ProductChoices& choices) { compute_.choices = choices; }
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
  const RowBuffer& stream() const { return stream_; }  // residual stream: [rows, embedding_size]
  // The buffer `role`, with row_count() rows of `shape` and undefined content.
  const RowBuffer& Rows(Scratch role, RowShape shape);
  // y = norm(x), n elements: a layer norm or an RMS norm (ModelConfig::has_layer_norms). y may be
  // x.
  void NormRow(const float* x, const NormWeights& weights, std::size_t n, float* y) const;
  // The buffer `role` with norm(stream); the stream itself if there are no weights.
  const RowBuffer& NormedStream(const NormWeights& weights, Scratch role = Scratch::kNormed);
  const RowBuffer& NormedStream(const float* weight) {
    return NormedStream(NormWeights{.weight = weight});
  }
  // y = linear(x). REQUIRES: x and y have the widths of `linear`.
  void Project(const LinearView& linear, const RowBuffer& x, const RowBuffer& y);
  // stream += residual_scale * norm(linear(x)); without a norm if post_norm is null.
  void AddToStream(const LinearView& linear, const RowBuffer& x, const float* post_norm = nullptr);
  // stream += residual_scale * norm(rows). The call changes `rows`, unless norm and scale are
  // absent.
  void AddRowsToStream(const RowBuffer& rows, const float* post_norm = nullptr);
  // An array of ones, as many as a head of values has elements: the weights of a norm without
  // weights.
  const float* ones() const { return ones_.data(); }
  ExpertWork& expert_work() { return expert_work_; }
  HeadProducts& head_products() { return head_products_; }
  // Calls task(first_row, last_row) for ranges that cover [0, row_count), on several threads if
  // there are many rows.
  template <class Task>
  void ForRows(std::size_t row_count, const Task& task) {
    compute_.pool->Run((row_count + kRowsPerUnit - 1) / kRowsPerUnit,
                       [&](std::uint32_t, std::size_t unit) {
                         task(unit * kRowsPerUnit, std::min(row_count, (unit + 1) * kRowsPerUnit));
                       });
  }

  // Calls task(unit) for units [0, unit_count). Uses several threads if `operations`, the work of
  // all units together, is worth waking the threads.
  template <class Task>
  void ForUnits(std::size_t unit_count, std::size_t operations, const Task& task) {
    if (operations < kInlineOperations) {
      for (std::size_t unit = 0; unit < unit_count; ++unit) task(unit);
      return;
    }
    compute_.pool->Run(unit_count, [&](std::uint32_t, std::size_t unit) { task(unit); });
  }
  // Clears `finite` of the sequence's item if an element of x is not finite. Any thread of a task
  // may call CheckFinite.
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
  friend class Decoder;
  static constexpr std::size_t kRowsPerUnit = 16;
  static constexpr std::size_t kInlineOperations = 64 * 1024;
  // Starts a new ubatch; the stream is not filled yet.
  void Begin(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items);
  void FillKeyAngles();
  // Writes zeros after each layer's state whose length is not a multiple of a cache line.
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
  std::vector<std::size_t> state_offsets_;  // start of each layer's state, in floats; then the end

  const StepPlan* plan_ = nullptr;
  Memory* memory_ = nullptr;
  std::span<ForwardItem> items_;
  std::vector<SequenceRows> sequences_;
  std::size_t row_count_ = 0;

  RowBuffer stream_;
  std::array<RowBuffer, kScratchCount> scratch_;
  ExpertWork expert_work_;
  HeadProducts head_products_;
  const std::vector<float> ones_;

  // Per kind of layer (ModelRopes).
  std::vector<AttentionPlan> plans_;
  std::vector<AttentionReach> reaches_;
  std::vector<AttentionTiling> tilings_;
  std::vector<std::vector<float>> key_cosine_;  // [rows, pairs]
  std::vector<std::vector<float>> key_sine_;
};

// Floats of the recurrent state of one sequence in all layers; 0: the model has no recurrent state.
std::size_t StateFloats(const ModelConfig& config);
// Start of each layer's state within the state of all layers, in floats, aligned to a cache line;
// then the end of the last layer's state.
std::vector<std::size_t> StateOffsets(const ModelConfig& config);

}  // namespace kvd
