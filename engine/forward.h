// The forward pass of the llama family: one ubatch through all layers, keys and values into the
// pool, logits to where the caller wants them.
//
// Owned by the engine, called by its thread. All buffers are allocated at creation for
// `row_count_max` rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/compute.h"
#include "engine/layers/attention.h"
#include "engine/layers/linear.h"
#include "engine/memory/memory.h"
#include "engine/model_config.h"
#include "engine/model_weights.h"
#include "engine/rope_table.h"

namespace kvd {

// One sequence's part of a ubatch beside its StepSequence of the same index.
struct ForwardItem {
  std::size_t first_logits_row = 0;  // of its rows; its row count: none
  float* logits = nullptr;           // [rows wanted, vocab_size]
  bool finite = true;                // out: false if a key, value or logit was not finite
};

class Forward {
 public:
  // The arguments outlive the object.
  Forward(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
          const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
          std::size_t row_count_max);

  // items.size() == plan.count; the rows of all sequences together are at most row_count_max.
  void Run(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items);

  const RopeTable& rope() const { return rope_; }

 private:
  void Embed(const StepPlan& plan);
  void Norm(const float* const* rows, std::size_t row_count, const float* weight,
            float* const* out);
  void StoreKeysAndValues(const StepPlan& plan, Memory& memory, std::size_t layer,
                          std::span<ForwardItem> items);
  void Attention(const StepPlan& plan, Memory& memory, std::size_t layer,
                 std::span<ForwardItem> items);
  void FeedForward(std::size_t layer);
  void Logits(std::span<ForwardItem> items);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const CellLayout& cells_;
  RopeTable rope_;
  Compute compute_;
  FloatBuffer workspaces_;
  AttentionPlan attention_plan_;
  std::size_t row_count_ = 0;
  std::size_t tile_rows_ = std::numeric_limits<std::size_t>::max();  // of attention, in every layer

  // Activations, one row per token of the ubatch. Widths are the largest of any layer.
  struct Rows {
    FloatBuffer buffer;
    std::size_t stride = 0;
    std::vector<float*> pointers;  // [row_count_max]
    void Allocate(std::size_t row_count_max, std::size_t width);
    float* operator[](std::size_t row) const { return pointers[row]; }
  };
  Rows stream_;                    // [rows, embedding_size]: the residual stream
  Rows normed_;                    // [rows, embedding_size]
  Rows q_;                         // [rows, head_count * head_dim_k]
  Rows k_;                         // [rows, kv_head_count * head_dim_k]
  Rows v_;                         // [rows, kv_head_count * head_dim_v]
  Rows attended_;                  // [rows, head_count * head_dim_v]
  Rows projected_;                 // [rows, embedding_size]
  Rows gate_;                      // [rows, feed_forward_size]
  Rows up_;                        // [rows, feed_forward_size]
  std::vector<float> key_cosine_;  // [rows, pairs]: rotation of new keys, at their stored positions
  std::vector<float> key_sine_;
  std::vector<const float*> logits_input_;  // rows of the stream whose logits are wanted
  std::vector<float*> logits_output_;
};

}  // namespace kvd
