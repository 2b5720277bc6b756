// StepProfile: where the time of steps goes, told apart by part and by kind of step.
//
// Owner: the engine. Enter and EndStep belong to the engine thread; decode() and prompts() may be
// called from any thread. Time within an inner part is not counted in the outer one, so the parts of
// a step add up to it. Two clock readings a part and layer: some microseconds a step.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "shm/step_parts.h"

namespace kvd {

struct StepTimes {
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::array<std::uint64_t, kStepParts> ns{};
};

class StepProfile {
 public:
  // From here to its end, time belongs to a part; then to the one before. Null: nothing happens.
  class Scope {
   public:
    Scope(StepProfile* profile, StepPart part) : profile_(profile) {
      if (profile_ != nullptr) outer_ = profile_->Switch(part);
    }
    ~Scope() {
      if (profile_ != nullptr) profile_->Switch(outer_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepProfile* const profile_;
    StepPart outer_ = StepPart::kOther;
  };

  StepPart current() const { return current_; }
  void BeginStep();
  // is_decode: one token of each sequence.
  void EndStep(bool is_decode, std::size_t tokens);

  StepTimes decode() const { return Read(decode_); }
  StepTimes prompts() const { return Read(prompts_); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Totals {
    std::atomic<std::uint64_t> steps = 0, tokens = 0;
    std::array<std::atomic<std::uint64_t>, kStepParts> ns{};
  };
  StepPart Switch(StepPart part);
  static StepTimes Read(const Totals& totals);

  Clock::time_point since_{};
  StepPart current_ = StepPart::kOther;
  std::array<std::uint64_t, kStepParts> step_ns_{};
  Totals decode_;
  Totals prompts_;
};

}  // namespace kvd
