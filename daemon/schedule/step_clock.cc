#include "daemon/schedule/step_clock.h"

#include <algorithm>
#include <cmath>

namespace kvd {
namespace {

void Follow(std::optional<double>& average, double sample) {
  constexpr double kWeight = 0.25;
  average = average ? *average + kWeight * (sample - *average) : sample;
}

}  // namespace

std::optional<double> StepClock::UnitSeconds() const {
  for (const std::optional<double>& seconds : token_seconds_) {
    if (seconds) return std::max(*seconds, 1e-9);
  }
  return std::nullopt;
}

std::size_t StepClock::PrefillTokens(std::size_t tokens_max) const {
  if (seconds_max_ <= 0.0) return tokens_max;
  const std::optional<double> unit = UnitSeconds();
  if (!unit) return std::min(kFirstTokens, tokens_max);
  const double room = seconds_max_ - decode_seconds_.value_or(0.0);
  const double tokens = std::clamp(room / *unit, 0.0, static_cast<double>(tokens_max));
  const std::size_t portions = static_cast<std::size_t>(tokens) / kPortionTokens;
  return std::min(std::max<std::size_t>(portions, 1) * kPortionTokens, tokens_max);
}

void StepClock::AddStep(std::size_t decode_rows, std::size_t prefill_tokens, double seconds) {
  if (prefill_tokens == 0) {
    if (decode_rows != 0) Follow(decode_seconds_, seconds);
    return;
  }
  std::optional<double>& token_seconds = seconds_of(WorkKind::kPrompt);
  // If a step has only a few prompt tokens, the measured time is mostly the time of its other work,
  // so StepClock ignores the step.
  if (prefill_tokens < kPortionTokens && token_seconds) return;
  const double added = seconds - decode_seconds_.value_or(0.0);
  Follow(token_seconds, std::max(added, 0.0) / static_cast<double>(prefill_tokens));
}

double StepClock::Scale(WorkKind kind) const {
  // A ratio above kScaleMax comes from a disturbed measurement, for example if the machine was
  // suspended.
  constexpr double kScaleMax = 4096.0;
  const std::optional<double>& seconds = seconds_of(kind);
  if (!seconds) return 1.0;
  return std::clamp(*seconds / *UnitSeconds(), 1.0 / kScaleMax, kScaleMax);
}

std::size_t StepClock::InPromptTokens(WorkKind kind, std::size_t tokens) const {
  return static_cast<std::size_t>(std::ceil(static_cast<double>(tokens) * Scale(kind)));
}

std::size_t StepClock::TokensFor(WorkKind kind, std::size_t prompt_tokens) const {
  if (!seconds_of(kind)) return std::min(prompt_tokens, kFirstTokens);
  const double tokens = static_cast<double>(prompt_tokens) / Scale(kind);
  return std::max<std::size_t>(static_cast<std::size_t>(tokens), 1);
}

void StepClock::AddWork(WorkKind kind, std::size_t tokens, double seconds) {
  if (tokens == 0) return;
  Follow(seconds_of(kind), std::max(seconds, 0.0) / static_cast<double>(tokens));
}

}  // namespace kvd
