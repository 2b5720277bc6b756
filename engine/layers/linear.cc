// A unit of work is a range of output columns of one job: each weight byte is read once per ubatch,
// and a column's result does not depend on how the columns were cut.
#include "engine/layers/linear.h"

#include <algorithm>
#include <cstdint>

namespace kvd {
namespace {

// Below this many multiply-adds waking a second thread costs more than it gains.
constexpr std::size_t kInlineProducts = 128 * 1024;
constexpr std::size_t kColumnStep = 16;

void RunColumns(const Compute& compute, const LinearJob& job, std::size_t row_count,
                std::size_t first, std::size_t last, std::uint32_t worker) {
  const LinearView& linear = *job.linear;
  compute.kernels->matmul({.weight_type = linear.weight.type,
                           .exact = compute.exact,
                           .weights = linear.weight.data,
                           .in_features = linear.weight.in_features,
                           .x = job.x,
                           .x_stride = job.x_stride,
                           .row_count = row_count,
                           .y = job.y,
                           .first_out = first,
                           .last_out = last,
                           .workspace = compute.workspace(worker)});
  const std::size_t count = last - first;
  for (std::size_t row = 0; row < row_count; ++row) {
    float* y = job.y[row] + first;
    if (linear.scale_after_bias && linear.bias != nullptr) {
      compute.kernels->add(y, linear.bias + first, count, y);
    }
    if (linear.scale != 1.0f) compute.kernels->scale(y, linear.scale, count, y);
    if (!linear.scale_after_bias && linear.bias != nullptr) {
      compute.kernels->add(y, linear.bias + first, count, y);
    }
    if (job.add_to != nullptr) {
      float* sum = job.add_to[row] + first;
      compute.kernels->add(sum, y, count, sum);
    }
  }
}

}  // namespace

void RunLinear(const Compute& compute, std::span<const LinearJob> jobs, std::size_t row_count) {
  std::size_t products = 0;
  std::size_t columns = 0;
  for (const LinearJob& job : jobs) {
    columns += job.linear->weight.out_features;
    products += job.linear->weight.in_features * job.linear->weight.out_features * row_count;
  }
  if (compute.pool->thread_count() == 1 || products < kInlineProducts) {
    for (const LinearJob& job : jobs) {
      RunColumns(compute, job, row_count, 0, job.linear->weight.out_features, 0);
    }
    return;
  }
  // About eight units per thread, so that one that is interrupted delays the others little.
  const std::size_t wanted = columns / (std::size_t{compute.pool->thread_count()} * 8) + 1;
  const std::size_t unit_columns = (wanted + kColumnStep - 1) / kColumnStep * kColumnStep;
  std::size_t unit_count = 0;
  for (const LinearJob& job : jobs) {
    unit_count += (job.linear->weight.out_features + unit_columns - 1) / unit_columns;
  }
  compute.pool->Run(unit_count, [&](std::uint32_t worker, std::size_t unit) {
    for (const LinearJob& job : jobs) {
      const std::size_t out_features = job.linear->weight.out_features;
      const std::size_t job_units = (out_features + unit_columns - 1) / unit_columns;
      if (unit < job_units) {
        const std::size_t first = unit * unit_columns;
        RunColumns(compute, job, row_count, first, std::min(first + unit_columns, out_features),
                   worker);
        return;
      }
      unit -= job_units;
    }
  });
}

}  // namespace kvd
