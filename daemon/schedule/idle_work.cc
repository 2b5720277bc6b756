#include "daemon/schedule/idle_work.h"

#include <utility>

namespace kvd {

IdleTuning::IdleTuning(Engine& engine, bool begins, std::function<void(const Tuning&)> save)
    : engine_(engine),
      save_(std::move(save)),
      progress_(begins ? TuningProgress::kWaits : TuningProgress::kNothingToDo) {}

bool IdleTuning::Begin(bool reads_weights) {
  if (run_ != nullptr) return true;
  const bool begins = progress_ == TuningProgress::kWaits;
  if (begins) run_ = engine_.StartTuning(reads_weights);
  if (begins && run_ == nullptr) progress_ = TuningProgress::kNothingToDo;
  if (run_ == nullptr) return false;
  progress_ = TuningProgress::kMeasures;
  return true;
}

Tuning IdleTuning::Finish() {
  Tuning tuning = run_->Finish();
  run_.reset();
  // Without weights in memory nothing was measured.
  if (tuning.types.empty()) {
    progress_ = TuningProgress::kWaits;
    return tuning;
  }
  measured_unix_ms_ = tuning.measured_unix_ms;
  progress_ = TuningProgress::kMeasured;
  return tuning;
}

IdleWork::Left IdleTuning::Slice() {
  if (!Begin(false)) return Left::kNothing;
  run_->Slice();
  ++slices_;
  if (!run_->done()) return Left::kMore;
  const Tuning tuning = Finish();
  if (tuning.types.empty()) return Left::kLater;
  save_(tuning);
  return Left::kNothing;
}

void IdleTuning::MeasureNow() {
  if (!Begin(true)) return;
  while (!run_->done() && !is_cancelled_.load(std::memory_order_relaxed)) {
    run_->Slice();
    ++slices_;
  }
  if (!run_->done()) return;
  const Tuning tuning = Finish();
  engine_.UseTuning(tuning);
  save_(tuning);
}

}  // namespace kvd
