#include "engine/forward/pass/head_products.h"

namespace kvd {

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
