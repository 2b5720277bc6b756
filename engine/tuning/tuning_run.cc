#include "engine/tuning/tuning_run.h"

#include "base/clock.h"
#include "engine/tuning/choice_table.h"

namespace kvd {

// ---- tuning state
void ChooseTuning(int directory, const kernels::KernelTable& table, TuningState* state) {
  state->defaults = DefaultChoicesOf(state->key.machine.cpu, table);
  state->tuning = {.measured_unix_ms = 0, .types = {}, .choices = state->defaults};
  if (state->source != ChoiceSource::kDefaults || directory < 0) return;
  const Result<std::string> text = ReadTuningFile(directory);
  if (!text) {
    if (text.error().code != Code::kNotFound) state->why_ignored = text.error().message;
    return;
  }
  Result<Tuning> tuning = ParseTuning(*text, state->key, table, state->defaults);
  if (!tuning) {
    state->why_ignored = tuning.error().message;
    return;
  }
  state->tuning = std::move(*tuning);
  state->source = ChoiceSource::kMeasuredBefore;
}

// ---- tuning run
TuningRun::TuningRun(const Compute& compute, std::span<const GgufTensor> tensors,
                     std::size_t in_features_max, bool reads_weights,
                     const kernels::ProductChoices& defaults, std::uint32_t rows_max)
    : timer_(compute, tensors, in_features_max, reads_weights),
      measuring_(*compute.kernels, timer_.types(), defaults, rows_max, timer_) {}

Tuning TuningRun::Finish() const {
  return {
      .measured_unix_ms = NowUnixMs(), .types = measuring_.types(), .choices = measuring_.Choose()};
}

}  // namespace kvd
