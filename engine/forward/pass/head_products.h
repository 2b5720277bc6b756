// HeadProducts: products in which each head has a matrix of its own.
//
// Owned by ForwardPass. The vectors of HeadProducts keep their capacity, so nothing is allocated
// per token.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/forward/compute/linear.h"
#include "engine/forward/pass/row_buffer.h"

namespace kvd {

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
