// Linear layers: products of weight matrices with all rows of a ubatch. The threads divide the
// output columns of a product among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/forward/compute/compute.h"
#include "engine/model/weight_view.h"

namespace kvd {

struct LinearJob {
  const LinearView* linear = nullptr;
  const float* x = nullptr;  // [row_count, x_stride]
  std::size_t x_stride = 0;
  float* const* y = nullptr;  // [row_count] rows of out_features
  // Null, or [row_count] rows to which y is added (the residual stream).
  float* const* add_to = nullptr;
};

// The form in which a product takes its input.
enum class InputForm : std::uint8_t { kFloats, kQuantized, kBf16 };

// The form in which a product with weights of type `type` takes its input if the step has row_count
// rows.
InputForm FormFor(const Compute& compute, kernels::DataType type, std::size_t row_count);
// Bytes of an input row of n elements in the form `form`; 0 for kFloats.
std::size_t InputRowBytes(InputForm form, std::size_t n);
// Writes rows of x [row_count, x_stride], n elements each, to `to` in the form `form`, back to
// back. REQUIRES: `form` is not kFloats; `to` is 64-byte aligned.
void PrepareInput(const Compute& compute, InputForm form, const float* x, std::size_t x_stride,
                  std::size_t row_count, std::size_t n, std::byte* to);

// A job whose input is already converted to the form that the product with its weights reads.
struct ReadyJob {
  const LinearJob* job = nullptr;
  InputForm form = InputForm::kFloats;
  const void* input = nullptr;  // null for kFloats
  std::size_t row_count = 0;
};
// Computes the outputs [first, last) of one job on the calling thread, which is worker `worker` of
// the pool.
void RunColumns(const Compute& compute, const ReadyJob& ready, std::size_t first, std::size_t last,
                std::uint32_t worker);
// Computes the products of all jobs. The threads divide the output columns of all jobs among them.
void RunReady(const Compute& compute, std::span<const ReadyJob> jobs);

// The size of Compute::inputs that jobs of at most in_features_max input features and row_count
// rows need; the buffer holds two different inputs at once.
std::size_t LinearInputBytes(std::size_t in_features_max, std::size_t row_count);

// y = W x (+ bias) for every job. A first pass over the threads quantises the inputs of quantised
// weights (or rounds those of wide bf16 products); jobs that share an input share its quantised
// form. A second pass computes the products. If Compute::inputs cannot hold all different inputs,
// the jobs are divided into several rounds of two passes each.
void RunLinear(const Compute& compute, std::span<const LinearJob> jobs, std::size_t row_count);

}  // namespace kvd
