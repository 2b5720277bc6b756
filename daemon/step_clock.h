// StepClock: how many prompt tokens a step may take beside decode rows, so that it does not last
// longer than wanted. Learns from the steps that were: what one without prompts takes, and what
// each prompt token adds; both as averages that follow the last few, since they grow with the
// sequences' lengths. So it learns what a token costs of each kind of work that is done between steps
// (WorkKind): the planner counts all of them in tokens of a prompt, by their time.
//
// Owner: the scheduler, engine thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/step_planner.h"

namespace kvd {

// Work whose tokens cost about the same.
enum class WorkKind : std::uint8_t {
  kPrompt,   // in steps
  kReplay,   // tokens computed again for a recurrent state
  kEncode,   // tokens of a text through the encoder
  kRewrite,  // cells that are rotated
  kPack,     // cells that a defragmentation moves
};
inline constexpr std::size_t kWorkKinds = 5;

class StepClock {
 public:
  static constexpr std::size_t kPortionTokens = StepPlanner::kPortionTokens;
  // Before any prompt was computed; and of a kind of work, before any of it was done.
  static constexpr std::size_t kFirstTokens = 64;

  // 0: steps may last as long as they do.
  explicit StepClock(double seconds_max) : seconds_max_(seconds_max) {}

  // Of tokens_max at most, a multiple of kPortionTokens and never less: prompts always go on.
  std::size_t PrefillTokens(std::size_t tokens_max) const;
  void AddStep(std::size_t decode_rows, std::size_t prefill_tokens, double seconds);

  // Work of a kind in prompt tokens that take as long, rounded up; and how many tokens of a kind may
  // be done in the time of that many prompt tokens, one at least.
  std::size_t InPromptTokens(WorkKind kind, std::size_t tokens) const;
  std::size_t TokensFor(WorkKind kind, std::size_t prompt_tokens) const;
  void AddWork(WorkKind kind, std::size_t tokens, double seconds);

 private:
  std::optional<double>& seconds_of(WorkKind kind) {
    return token_seconds_[static_cast<std::size_t>(kind)];
  }
  const std::optional<double>& seconds_of(WorkKind kind) const {
    return token_seconds_[static_cast<std::size_t>(kind)];
  }
  // Of a prompt token; before there was a prompt, of the first kind of work that is known.
  std::optional<double> UnitSeconds() const;
  // Prompt tokens that take as long as a token of the kind; 1 while one of both is not known.
  double Scale(WorkKind kind) const;

  const double seconds_max_;
  std::optional<double> decode_seconds_;  // of a step of decode rows alone
  // That a token of the kind takes, or adds to a step.
  std::array<std::optional<double>, kWorkKinds> token_seconds_;
};

}  // namespace kvd
