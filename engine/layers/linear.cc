// A unit of work is a range of output columns of one job: each weight byte is read once per ubatch,
// and a column's result does not depend on how the columns were cut.
#include "engine/layers/linear.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/step_profile.h"
#include "kernels/bf16_panel.h"
#include "kernels/quantized_row.h"
#include "shm/check.h"

namespace kvd {
namespace {

// Below this many multiply-adds, or bytes of weights for one row, waking a second thread costs more than
// it gains.
constexpr std::size_t kInlineCost = 128 * 1024;
constexpr std::size_t kColumnStep = 32;
// With so few rows no kernel table makes panels of the weights, and units may be small, but in bf16.
constexpr std::size_t kNarrowRows = 4;
constexpr std::size_t kNarrowColumnStep = 8;
constexpr std::size_t kJobsAtOnce = 8;
// Rows of a unit when inputs are prepared by several threads.
constexpr std::size_t kPreparedRows = 16;

// In which form the product takes its input, besides the floats.
enum class InputForm : std::uint8_t { kFloats, kQuantized, kBf16 };

// A job with its input in the form that its product takes.
struct ReadyJob {
  const LinearJob* job = nullptr;
  InputForm form = InputForm::kFloats;
  const void* input = nullptr;  // null for kFloats
};
using ReadyJobs = std::span<const ReadyJob>;

void RunColumns(const Compute& compute, const ReadyJob& ready, std::size_t row_count,
                std::size_t first, std::size_t last, std::uint32_t worker) {
  const LinearJob& job = *ready.job;
  const LinearView& linear = *job.linear;
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

void RunPass(const Compute& compute, ReadyJobs jobs, std::size_t row_count, bool on_caller) {
  std::size_t columns = 0;
  for (const ReadyJob& ready : jobs) columns += ready.job->linear->weight.out_features;
  if (on_caller) {
    for (const ReadyJob& ready : jobs) {
      RunColumns(compute, ready, row_count, 0, ready.job->linear->weight.out_features, 0);
    }
    return;
  }
  // About eight units per thread, so that one that is interrupted delays the others little.
  const std::size_t wanted = columns / (std::size_t{compute.pool->thread_count()} * 8) + 1;
  const bool any_bf16 = std::ranges::any_of(
      jobs, [](const ReadyJob& ready) { return ready.form == InputForm::kBf16; });
  const std::size_t step = row_count <= kNarrowRows && !any_bf16 ? kNarrowColumnStep : kColumnStep;
  const std::size_t unit_columns = (wanted + step - 1) / step * step;
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
        RunColumns(compute, ready, row_count, first, std::min(first + unit_columns, out_features),
                   worker);
        return;
      }
      unit -= job_units;
    }
  });
}

InputForm FormFor(const Compute& compute, const LinearJob& job, std::size_t row_count) {
  const kernels::DataType type = job.linear->weight.type;
  if (kernels::IsQuantized(type)) return InputForm::kQuantized;
  const bool halves = type == kernels::DataType::kF16 || type == kernels::DataType::kBF16;
  if (!halves || compute.kernels->round_rows == nullptr) return InputForm::kFloats;
  // One form for any number of rows, or for each number the faster one.
  const bool is_wide = std::max(row_count, compute.form_rows) >= compute.kernels->bf16_rows_min;
  return compute.exact || is_wide ? InputForm::kBf16 : InputForm::kFloats;
}

std::size_t RowBytesOf(InputForm form, std::size_t n) {
  if (form == InputForm::kQuantized) return kernels::QuantizedRowBytes(n);
  return form == InputForm::kBf16 ? kernels::Bf16RowBytes(n) : 0;
}

// Writes the job's input in its form to `to`.
void Prepare(const Compute& compute, const LinearJob& job, InputForm form, std::size_t row_count,
             std::byte* to, bool on_caller) {
  const std::size_t n = job.linear->weight.in_features;
  const auto prepare =
      form == InputForm::kQuantized ? compute.kernels->quantize_rows : compute.kernels->round_rows;
  const auto rows = [&](std::size_t first, std::size_t count) {
    prepare(job.x + first * job.x_stride, job.x_stride, count, n, to + first * RowBytesOf(form, n));
  };
  if (on_caller || row_count <= kPreparedRows) return rows(0, row_count);
  const std::size_t unit_count = (row_count + kPreparedRows - 1) / kPreparedRows;
  compute.pool->Run(unit_count, [&](std::uint32_t, std::size_t unit) {
    const std::size_t first = unit * kPreparedRows;
    rows(first, std::min(kPreparedRows, row_count - first));
  });
}

// The input of an earlier job that `job` takes too, in the same form, or null.
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

// Fills `ready` with the first jobs whose inputs fit, at least one, and prepares them; returns how
// many.
std::size_t MakeReady(const Compute& compute, std::span<const LinearJob> jobs,
                      std::size_t row_count, bool on_caller,
                      std::array<ReadyJob, kJobsAtOnce>* ready) {
  std::size_t count = 0;
  std::size_t used = 0;
  for (const LinearJob& job : jobs.first(std::min(jobs.size(), kJobsAtOnce))) {
    ReadyJob made = {&job, FormFor(compute, job, row_count), nullptr};
    if (made.form != InputForm::kFloats) {
      made.input = SharedInput(ReadyJobs(*ready).first(count), job, made.form);
      if (made.input == nullptr) {
        const std::size_t bytes = row_count * RowBytesOf(made.form, job.linear->weight.in_features);
        if (used + bytes > compute.input_bytes) break;
        Prepare(compute, job, made.form, row_count, compute.inputs + used, on_caller);
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

std::size_t LinearInputBytes(std::size_t in_features_max, std::size_t row_count) {
  return 2 * row_count *
         std::max(kernels::QuantizedRowBytes(in_features_max),
                  kernels::Bf16RowBytes(in_features_max));
}

void RunLinear(const Compute& compute, std::span<const LinearJob> jobs, std::size_t row_count) {
  // The matrices of a recurrent layer are told apart from the rest of it.
  const bool is_recurrent =
      compute.profile != nullptr && compute.profile->current() == StepPart::kRecurrent;
  const StepProfile::Scope scope(is_recurrent ? compute.profile : nullptr,
                                 StepPart::kRecurrentProducts);
  if (row_count == 0) return;
  std::size_t cost = 0;
  for (const LinearJob& job : jobs) {
    const WeightView& weight = job.linear->weight;
    cost += weight.out_features * row_count *
            std::max(weight.in_features, kernels::RowBytes(weight.type, weight.in_features));
  }
  const bool on_caller = compute.pool->thread_count() == 1 || cost < kInlineCost;
  std::array<ReadyJob, kJobsAtOnce> ready;
  while (!jobs.empty()) {
    const std::size_t count = MakeReady(compute, jobs, row_count, on_caller, &ready);
    RunPass(compute, ReadyJobs(ready).first(count), row_count, on_caller);
    jobs = jobs.subspan(count);
  }
}

}  // namespace kvd
