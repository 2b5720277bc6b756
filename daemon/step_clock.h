// StepClock: how many prompt tokens a step may take beside decode rows, so that it does not last
// longer than wanted. Learns from the steps that were: what one without prompts takes, and what
// each prompt token adds; both as averages that follow the last few, since they grow with the
// sequences' lengths.
//
// Owner: the scheduler, engine thread only.
#pragma once

#include <cstddef>
#include <optional>

#include "daemon/step_planner.h"

namespace kvd {

class StepClock {
 public:
  static constexpr std::size_t kPortionTokens = StepPlanner::kPortionTokens;
  // Before any prompt was computed.
  static constexpr std::size_t kFirstTokens = 64;

  // 0: steps may last as long as they do.
  explicit StepClock(double seconds_max) : seconds_max_(seconds_max) {}

  // Of tokens_max at most, a multiple of kPortionTokens and never less: prompts always go on.
  std::size_t PrefillTokens(std::size_t tokens_max) const;
  void AddStep(std::size_t decode_rows, std::size_t prefill_tokens, double seconds);

 private:
  const double seconds_max_;
  std::optional<double> decode_seconds_;  // of a step of decode rows alone
  std::optional<double> token_seconds_;   // that a prompt token adds
};

}  // namespace kvd
