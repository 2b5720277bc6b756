// StepProfile: measures the time of steps by part of the step and by kind of step.
//
// Owner: the engine. BeginStep, Scope and EndStep belong to the engine thread; any thread may call
// decode() and prompts(). If one part of a step contains another, the time of the inner part does
// not count for the outer part, so the times of the parts add up to the time of the step.
// StepProfile reads the clock twice per part and layer, which costs a few microseconds per step.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "shm/step_phases.h"

namespace kvd {

struct StepTimes {
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::array<std::uint64_t, kStepPhases> ns{};
  std::uint64_t expert_bytes = 0;  // bytes of the weights of chosen experts
};

class StepProfile {
 public:
  // While a Scope exists, time counts for `part`; afterwards time counts for the previous part
  // again. With a null profile nothing is measured.
  class Scope {
   public:
    Scope(StepProfile* profile, StepPhase part) : profile_(profile) {
      if (profile_ != nullptr) outer_ = profile_->Switch(part);
    }
    ~Scope() {
      if (profile_ != nullptr) profile_->Switch(outer_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepProfile* const profile_;
    StepPhase outer_ = StepPhase::kOther;
  };

  // Counts weights of experts that the step read.
  void AddExpertBytes(std::size_t bytes) { step_expert_bytes_ += bytes; }
  StepPhase current() const { return current_; }
  void BeginStep();
  // is_decode: the step had one token of each sequence.
  void EndStep(bool is_decode, std::size_t tokens);

  StepTimes decode() const { return Read(decode_); }
  StepTimes prompts() const { return Read(prompts_); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Totals {
    std::atomic<std::uint64_t> steps = 0, tokens = 0;
    std::array<std::atomic<std::uint64_t>, kStepPhases> ns{};
    std::atomic<std::uint64_t> expert_bytes = 0;
  };
  StepPhase Switch(StepPhase part);
  static StepTimes Read(const Totals& totals);

  Clock::time_point since_{};
  StepPhase current_ = StepPhase::kOther;
  std::array<std::uint64_t, kStepPhases> step_ns_{};
  std::uint64_t step_expert_bytes_ = 0;
  Totals decode_;
  Totals prompts_;
};

}  // namespace kvd
