// A unit of work is a range of output columns of one job. Each weight byte is read once per ubatch,
// and a column's result does not depend on the division into ranges.
#include "engine/forward/compute/linear.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/rounding.h"
#include "engine/forward/compute/step_profile.h"
#include "kernels/panels.h"
#include "kernels/quantized_row.h"

namespace kvd {
namespace {

// If there are fewer than kInlineCost multiply-adds (or bytes of weights for one row), waking a
// second thread costs more than it gains.
constexpr std::size_t kInlineCost = 128 * 1024;
constexpr std::size_t kColumnStep = 32;
// With at most kNarrowRows rows units may be small, except in bf16. With at most kPlainRows rows no
// kernel table makes panels of the weights, so a unit may have a part of a panel's columns.
constexpr std::size_t kNarrowRows = 4;
constexpr std::size_t kPlainRows = 2;
constexpr std::size_t kPlainColumnStep = 8;
// About so many units per thread, so that an interrupted unit, or the last one, delays the others
// little. Products of many rows write panels for each unit, so their units are larger.
constexpr std::size_t kUnitsPerThread = 8;
constexpr std::size_t kNarrowUnitsPerThread = 32;
constexpr std::size_t kJobsAtOnce = 8;
// Rows of a unit when several threads prepare inputs.
constexpr std::size_t kPreparedRows = 16;

using ReadyJobs = std::span<const ReadyJob>;

// Multiply-adds of a product, or bytes of the product's weights if the bytes are more.
std::size_t CostOf(const LinearJob& job, std::size_t row_count) {
  const WeightView& weight = job.linear->weight;
  return weight.out_features * row_count *
         std::max(weight.in_features, kernels::RowBytes(weight.type, weight.in_features));
}

// Whether a product of so many rows has the choice's wide form.
bool IsWide(const Compute& compute, const kernels::ProductChoice& choice, std::size_t row_count) {
  return std::max(row_count, compute.form_rows) >= choice.wide_from_rows;
}

bool RunsOnCaller(const Compute& compute, std::size_t cost) {
  return compute.pool->thread_count() == 1 || cost < kInlineCost;
}

void RunPass(const Compute& compute, ReadyJobs jobs, bool on_caller) {
  std::size_t columns = 0;
  std::size_t row_count = 0;
  for (const ReadyJob& ready : jobs) {
    columns += ready.job->linear->weight.out_features;
    row_count = std::max(row_count, ready.row_count);
  }
  if (on_caller) {
    for (const ReadyJob& ready : jobs) {
      RunColumns(compute, ready, 0, ready.job->linear->weight.out_features, 0);
    }
    return;
  }
  const bool any_bf16 = std::ranges::any_of(
      jobs, [](const ReadyJob& ready) { return ready.form == InputForm::kBf16; });
  const bool is_narrow = row_count <= kNarrowRows && !any_bf16;
  const std::size_t units_wanted = std::size_t{compute.pool->thread_count()} *
                                   (is_narrow ? kNarrowUnitsPerThread : kUnitsPerThread);
  const bool is_plain = is_narrow && row_count <= kPlainRows;
  const std::size_t unit_columns =
      RoundUp(columns / units_wanted + 1, is_plain ? kPlainColumnStep : kColumnStep);
  std::size_t unit_count = 0;
  for (const ReadyJob& ready : jobs) {
    unit_count += (ready.job->linear->weight.out_features + unit_columns - 1) / unit_columns;
  }
  compute.pool->Run(unit_count, [&](std::uint32_t worker, std::size_t unit) {
    for (const ReadyJob& ready : jobs) {
      const std::size_t out_features = ready.job->linear->weight.out_features;
      const std::size_t job_units = (out_features + unit_columns - 1) / unit_columns;
      if (unit < job_units) {
        const std::size_t first = unit * unit_columns;
        RunColumns(compute, ready, first, std::min(first + unit_columns, out_features), worker);
        return;
      }
      unit -= job_units;
    }
  });
}

void Prepare(const Compute& compute, InputForm form, const float* x, std::size_t x_stride,
             std::size_t row_count, std::size_t n, std::byte* to, bool on_caller) {
  const auto prepare =
      form == InputForm::kQuantized ? compute.kernels->quantize_rows : compute.kernels->round_rows;
  const auto rows = [&](std::size_t first, std::size_t count) {
    prepare(x + first * x_stride, x_stride, count, n, to + first * InputRowBytes(form, n));
  };
  if (on_caller || row_count <= kPreparedRows) return rows(0, row_count);
  const std::size_t unit_count = (row_count + kPreparedRows - 1) / kPreparedRows;
  compute.pool->Run(unit_count, [&](std::uint32_t, std::size_t unit) {
    const std::size_t first = unit * kPreparedRows;
    rows(first, std::min(kPreparedRows, row_count - first));
  });
}

// The prepared input of an earlier job that has the same input in the same form, or null.
const void* SharedInput(ReadyJobs earlier, const LinearJob& job, InputForm form) {
  for (const ReadyJob& ready : earlier) {
    const LinearJob& other = *ready.job;
    if (ready.form == form && other.x == job.x && other.x_stride == job.x_stride &&
        other.linear->weight.in_features == job.linear->weight.in_features) {
      return ready.input;
    }
  }
  return nullptr;
}

// Prepares the first jobs whose inputs fit, at least one, and stores them in `ready`. Returns the
// number of prepared jobs.
std::size_t MakeReady(const Compute& compute, std::span<const LinearJob> jobs,
                      std::size_t row_count, bool on_caller,
                      std::array<ReadyJob, kJobsAtOnce>* ready) {
  std::size_t count = 0;
  std::size_t used = 0;
  for (const LinearJob& job : jobs.first(std::min(jobs.size(), kJobsAtOnce))) {
    const WeightView& weight = job.linear->weight;
    ReadyJob made = {&job, FormFor(compute, weight.type, row_count), nullptr, row_count};
    if (made.form != InputForm::kFloats) {
      made.input = SharedInput(ReadyJobs(*ready).first(count), job, made.form);
      if (made.input == nullptr) {
        const std::size_t bytes = row_count * InputRowBytes(made.form, weight.in_features);
        if (used + bytes > compute.input_bytes) break;
        Prepare(compute, made.form, job.x, job.x_stride, row_count, weight.in_features,
                compute.inputs + used, on_caller);
        made.input = compute.inputs + used;
        used += bytes;
      }
    }
    (*ready)[count++] = made;
  }
  KVD_ASSERT(count != 0);
  return count;
}

}  // namespace

void RunColumns(const Compute& compute, const ReadyJob& ready, std::size_t first, std::size_t last,
                std::uint32_t worker) {
  const LinearJob& job = *ready.job;
  const std::size_t row_count = ready.row_count;
  const LinearView& linear = *job.linear;
  // With --deterministic nothing depends on the choices of products.
  const kernels::ProductChoice choice =
      compute.exact ? kernels::ProductChoice{} : compute.choices.For(linear.weight.type);
  const bool in_outer =
      choice.wide_form == kernels::WideForm::kOuter && IsWide(compute, choice, row_count);
  compute.kernels->matmul(
      {.weight_type = linear.weight.type,
       .weights = linear.weight.data,
       .in_features = linear.weight.in_features,
       .x = job.x,
       .x_stride = job.x_stride,
       .quantized_x = ready.form == InputForm::kQuantized ? ready.input : nullptr,
       .bf16_x = ready.form == InputForm::kBf16 ? ready.input : nullptr,
       .row_count = row_count,
       .y = job.y,
       .first_out = first,
       .last_out = last,
       .workspace = compute.workspace(worker),
       .outer_products = in_outer,
       .ahead_bytes = choice.ahead_bytes,
       .panel_from_rows = choice.panel_from_rows,
       .panel_outs = choice.panel_outs});
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

InputForm FormFor(const Compute& compute, kernels::DataType type, std::size_t row_count) {
  const bool is_quantized = kernels::IsQuantized(type);
  const bool halves = type == kernels::DataType::kF16 || type == kernels::DataType::kBF16;
  const InputForm narrow = is_quantized ? InputForm::kQuantized : InputForm::kFloats;
  // --deterministic uses one form of inputs for any number of rows; without it, the chosen form for
  // row_count rows is used.
  if (compute.exact) {
    return halves && compute.kernels->round_rows != nullptr ? InputForm::kBf16 : narrow;
  }
  const kernels::ProductChoice& choice = compute.choices.For(type);
  const bool in_bf16 =
      choice.wide_form == kernels::WideForm::kBf16 && IsWide(compute, choice, row_count);
  return in_bf16 ? InputForm::kBf16 : narrow;
}

std::size_t InputRowBytes(InputForm form, std::size_t n) {
  if (form == InputForm::kQuantized) return kernels::QuantizedRowBytes(n);
  return form == InputForm::kBf16 ? kernels::Bf16RowBytes(n) : 0;
}

void PrepareInput(const Compute& compute, InputForm form, const float* x, std::size_t x_stride,
                  std::size_t row_count, std::size_t n, std::byte* to) {
  Prepare(compute, form, x, x_stride, row_count, n, to,
          RunsOnCaller(compute, row_count * n * sizeof(float)));
}

void RunReady(const Compute& compute, std::span<const ReadyJob> jobs) {
  std::size_t cost = 0;
  for (const ReadyJob& ready : jobs) cost += CostOf(*ready.job, ready.row_count);
  RunPass(compute, jobs, RunsOnCaller(compute, cost));
}

std::size_t LinearInputBytes(std::size_t in_features_max, std::size_t row_count) {
  return 2 * row_count *
         std::max(kernels::QuantizedRowBytes(in_features_max),
                  kernels::Bf16RowBytes(in_features_max));
}

void RunLinear(const Compute& compute, std::span<const LinearJob> jobs, std::size_t row_count) {
  // The profile distinguishes the matrix products of a recurrent layer from the rest of the layer.
  const bool is_recurrent =
      compute.profile != nullptr && compute.profile->current() == StepPhase::kRecurrent;
  const StepProfile::Scope scope(is_recurrent ? compute.profile : nullptr,
                                 StepPhase::kRecurrentProducts);
  if (row_count == 0) return;
  std::size_t cost = 0;
  for (const LinearJob& job : jobs) cost += CostOf(job, row_count);
  const bool on_caller = RunsOnCaller(compute, cost);
  std::array<ReadyJob, kJobsAtOnce> ready;
  while (!jobs.empty()) {
    const std::size_t count = MakeReady(compute, jobs, row_count, on_caller, &ready);
    RunPass(compute, ReadyJobs(ready).first(count), on_caller);
    jobs = jobs.subspan(count);
  }
}

}  // namespace kvd
