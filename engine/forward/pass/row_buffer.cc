#include "engine/forward/pass/row_buffer.h"

#include <algorithm>

namespace kvd {

// ---- row buffer
void RowBuffer::Shape(std::size_t row_count_max, std::size_t width) {
  if (width == width_ && row_count_max == pointers_.size()) return;
  if (row_count_max * width > capacity_) {
    capacity_ = row_count_max * width;
    buffer_ = FloatBuffer(capacity_);
  }
  width_ = width;
  pointers_.resize(row_count_max);
  for (std::size_t row = 0; row < row_count_max; ++row) {
    pointers_[row] = buffer_.data() + row * width;
  }
}

// ---- expert work
ExpertWork::ExpertWork(const ExpertConfig& config, std::size_t row_count_max) {
  if (config.count == 0) return;
  const std::size_t slot_count = row_count_max * config.used;
  chosen.resize(slot_count);
  slots.resize(slot_count);
  slot_rows.resize(slot_count);
  starts.resize(config.count + 1);
  gate.Shape(slot_count, config.size);
  up.Shape(slot_count, config.size);
  results.Shape(slot_count, config.input_size);
  const std::size_t widest = std::max(config.size, config.input_size);
  const std::size_t row_bytes =
      std::max({InputRowBytes(InputForm::kQuantized, widest),
                InputRowBytes(InputForm::kBf16, widest), widest * sizeof(float)});
  inputs = FloatBuffer(slot_count * row_bytes / sizeof(float) + 1);
  const std::size_t product_count = 2 * std::size_t{config.count};
  views.reserve(product_count);
  jobs.reserve(product_count);
  ready.reserve(product_count);
}

// ---- head products
void HeadProducts::Run(const Compute& compute, const WeightView& weights, std::size_t head_count,
                       std::size_t row_count, HeadRows x, HeadRows y) {
  views_.resize(head_count);
  rows_.resize(head_count * row_count);
  jobs_.resize(head_count);
  const std::size_t out_features = weights.out_features / head_count;
  const std::size_t matrix_bytes =
      out_features * kernels::RowBytes(weights.type, weights.in_features);
  for (std::size_t head = 0; head < head_count; ++head) {
    views_[head].weight = weights;
    views_[head].weight.out_features = out_features;
    views_[head].weight.data += head * matrix_bytes;
    float** const rows = rows_.data() + head * row_count;
    for (std::size_t row = 0; row < row_count; ++row) {
      rows[row] = (*y.rows)[row] + head * y.stride;
    }
    jobs_[head] = {.linear = &views_[head],
                   .x = (*x.rows)[0] + head * x.stride,
                   .x_stride = x.rows->width(),
                   .y = rows};
  }
  RunLinear(compute, jobs_, row_count);
}

}  // namespace kvd
