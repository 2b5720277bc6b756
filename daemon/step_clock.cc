#include "daemon/step_clock.h"

#include <algorithm>

namespace kvd {
namespace {

void Follow(std::optional<double>& average, double sample) {
  constexpr double kWeight = 0.25;
  average = average ? *average + kWeight * (sample - *average) : sample;
}

}  // namespace

std::size_t StepClock::PrefillTokens(std::size_t tokens_max) const {
  if (seconds_max_ <= 0.0) return tokens_max;
  if (!token_seconds_) return std::min(kFirstTokens, tokens_max);
  const double room = seconds_max_ - decode_seconds_.value_or(0.0);
  const double tokens =
      std::clamp(room / std::max(*token_seconds_, 1e-9), 0.0, static_cast<double>(tokens_max));
  const std::size_t portions = static_cast<std::size_t>(tokens) / kPortionTokens;
  return std::min(std::max<std::size_t>(portions, 1) * kPortionTokens, tokens_max);
}

void StepClock::AddStep(std::size_t decode_rows, std::size_t prefill_tokens, double seconds) {
  if (prefill_tokens == 0) {
    if (decode_rows != 0) Follow(decode_seconds_, seconds);
    return;
  }
  // A few tokens at a prompt's end tell more of the step than of themselves.
  if (prefill_tokens < kPortionTokens && token_seconds_) return;
  const double added = seconds - decode_seconds_.value_or(0.0);
  Follow(token_seconds_, std::max(added, 0.0) / static_cast<double>(prefill_tokens));
}

}  // namespace kvd
