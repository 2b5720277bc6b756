// Linear layers: products of weight matrices with all rows of a ubatch, shared out over the threads
// by output columns.
#pragma once

#include <cstddef>
#include <span>

#include "engine/compute.h"
#include "engine/weight_view.h"

namespace kvd {

struct LinearJob {
  const LinearView* linear = nullptr;
  const float* x = nullptr;  // [row_count, x_stride]
  std::size_t x_stride = 0;
  float* const* y = nullptr;  // [row_count] rows of out_features
  float* const* add_to =
      nullptr;  // null, or [row_count] rows to which y is added (the residual stream)
};

// What Compute::inputs needs for jobs of at most these sizes: two different inputs at once.
std::size_t LinearInputBytes(std::size_t in_features_max, std::size_t row_count);

// y = W x (+ bias) for every job, in one pass over the threads, after one that quantises the inputs
// of quantised weights (or rounds those of wide bf16 products), each once however many jobs share
// it. Jobs with more different inputs than Compute::inputs holds take several passes.
void RunLinear(const Compute& compute, std::span<const LinearJob> jobs, std::size_t row_count);

}  // namespace kvd
