// StepClock: decides how many prompt tokens a step with decode rows may contain, so that the step
// does not exceed its target duration.
//
// StepClock measures the duration of steps without prompt tokens and the time that each prompt
// token adds. StepClock keeps both times as moving averages, because both grow with the lengths of
// the sequences. StepClock also measures the time of a token for each kind of work between steps
// (WorkKind). With InPromptTokens, the scheduler expresses an amount of work between steps as the
// number of prompt tokens that take the same time.
//
// Owner: the scheduler. Only the engine thread uses a StepClock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/schedule/step_planner.h"

namespace kvd {

// Kinds of work; all tokens of one kind take about the same time.
enum class WorkKind : std::uint8_t {
  kPrompt,   // prompt tokens in steps
  kReplay,   // tokens computed again for a recurrent state
  kEncode,   // tokens of a text that the encoder computes
  kRewrite,  // cells that are rotated
  kPack,     // cells that a defragmentation moves
};
inline constexpr std::size_t kWorkKinds = 5;

class StepClock {
 public:
  static constexpr std::size_t kPortionTokens = StepPlanner::kPortionTokens;
  // The number of prompt tokens that PrefillTokens allows before a prompt was measured, and the
  // number of tokens of a kind of work before that kind was measured.
  static constexpr std::size_t kFirstTokens = 64;

  // `seconds_max`: target duration of a step; 0: no limit.
  explicit StepClock(double seconds_max) : seconds_max_(seconds_max) {}

  // Returns the number of prompt tokens for the next step: at most tokens_max, in multiples of
  // kPortionTokens, and at least one portion (or tokens_max if that is less), so that prompts
  // always advance.
  std::size_t PrefillTokens(std::size_t tokens_max) const;
  void AddStep(std::size_t decode_rows, std::size_t prefill_tokens, double seconds);

  // InPromptTokens converts `tokens` tokens of a kind of work to the number of prompt tokens that
  // take the same time, rounded up. TokensFor converts a number of prompt tokens to the number of
  // tokens of a kind of work that fit into the same time, at least one.
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
  // Returns the measured seconds of a prompt token; if no prompt was measured, the seconds of a
  // token of the first kind of work that was measured.
  std::optional<double> UnitSeconds() const;
  // Returns the number of prompt tokens that take as long as one token of the kind, or 1 if one of
  // the two times is not measured.
  double Scale(WorkKind kind) const;

  const double seconds_max_;
  std::optional<double> decode_seconds_;  // duration of a step with only decode rows
  // For each WorkKind, the seconds that a token takes or adds to a step; nullopt: the time was not
  // measured.
  std::array<std::optional<double>, kWorkKinds> token_seconds_;
};

}  // namespace kvd
