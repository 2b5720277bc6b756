#include "engine/forward/compute/step_profile.h"

namespace kvd {

void StepProfile::BeginStep() {
  step_ns_.fill(0);
  step_expert_bytes_ = 0;
  current_ = StepPhase::kOther;
  since_ = Clock::now();
}

StepPhase StepProfile::Switch(StepPhase part) {
  const Clock::time_point now = Clock::now();
  step_ns_[static_cast<std::size_t>(current_)] += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - since_).count());
  since_ = now;
  const StepPhase outer = current_;
  current_ = part;
  return outer;
}

void StepProfile::EndStep(bool is_decode, std::size_t tokens) {
  Switch(StepPhase::kOther);
  Totals& totals = is_decode ? decode_ : prompts_;
  totals.steps.fetch_add(1, std::memory_order_relaxed);
  totals.tokens.fetch_add(tokens, std::memory_order_relaxed);
  totals.expert_bytes.fetch_add(step_expert_bytes_, std::memory_order_relaxed);
  for (std::size_t part = 0; part < kStepPhases; ++part) {
    totals.ns[part].fetch_add(step_ns_[part], std::memory_order_relaxed);
  }
}

StepTimes StepProfile::Read(const Totals& totals) {
  StepTimes times{.steps = totals.steps.load(std::memory_order_relaxed),
                  .tokens = totals.tokens.load(std::memory_order_relaxed)};
  for (std::size_t part = 0; part < kStepPhases; ++part) {
    times.ns[part] = totals.ns[part].load(std::memory_order_relaxed);
  }
  times.expert_bytes = totals.expert_bytes.load(std::memory_order_relaxed);
  return times;
}

}  // namespace kvd
