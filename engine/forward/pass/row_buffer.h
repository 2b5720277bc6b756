// Rows of a ubatch and the memory for their way through experts and heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/forward/compute/compute.h"
#include "engine/forward/compute/linear.h"
#include "engine/model/expert_config.h"
#include "engine/model/weight_view.h"

namespace kvd {

// RowBuffer: rows of f32, stored back to back.
class RowBuffer {
 public:
  float* operator[](std::size_t row) const { return pointers_[row]; }
  float* const* pointers() const { return pointers_.data(); }
  std::size_t width() const { return width_; }

  // Gives the buffer row_count_max rows of `width` floats with undefined content. The buffer's
  // memory grows to the largest shape and is kept.
  void Shape(std::size_t row_count_max, std::size_t width);

 private:
  FloatBuffer buffer_;
  std::size_t capacity_ = 0;  // floats
  std::size_t width_ = 0;
  std::vector<float*> pointers_;
};

// ExpertWork: memory for the rows of a ubatch on their way through the experts.
//
// Owned by ForwardPass and sized once for the largest ubatch. A slot is one row at one expert that
// the row's token chose; the slots of an expert are adjacent, in the order of the rows.
struct ChosenExpert {
  std::uint32_t expert = 0;
  float weight = 0.0f;
};

struct ExpertWork {
  ExpertWork() = default;
  ExpertWork(const ExpertConfig& config, std::size_t row_count_max);

  std::vector<ChosenExpert> chosen;      // [rows, used]
  std::vector<std::uint32_t> slots;      // [rows, used]: the slot of each choice
  std::vector<std::uint32_t> slot_rows;  // [slots]: the row of each slot
  std::vector<std::uint32_t> starts;     // [count + 1]: first slot of each expert; then the end
  RowBuffer gate;                        // [slots, size]
  RowBuffer up;                          // [slots, size]
  RowBuffer results;                     // [slots, input_size]
  FloatBuffer inputs;                    // prepared or gathered inputs of all slots
  // The products that are computed together; at most two for each expert.
  std::vector<LinearView> views;
  std::vector<LinearJob> jobs;
  std::vector<ReadyJob> ready;
};

// HeadProducts: products in which each head has a matrix of its own.
//
// Owned by ForwardPass. The vectors of HeadProducts keep their capacity, so nothing is allocated
// per token.
class HeadProducts {
 public:
  // The rows of one head: elements from `head * stride` on in each row of `rows`.
  struct HeadRows {
    const RowBuffer* rows = nullptr;
    std::size_t stride = 0;
  };

  // y[row][head] = W[head] x[row][head] for every row and head. `weights` holds head_count matrices
  // [out_features / head_count, in_features] one after the other.
  void Run(const Compute& compute, const WeightView& weights, std::size_t head_count,
           std::size_t row_count, HeadRows x, HeadRows y);

 private:
  std::vector<LinearView> views_;  // by head
  std::vector<float*> rows_;       // rows of y: [head][row]
  std::vector<LinearJob> jobs_;
};

}  // namespace kvd
