#include "engine/tuning/tuning_state.h"

#include "engine/tuning/cpu_defaults.h"

namespace kvd {

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

}  // namespace kvd
