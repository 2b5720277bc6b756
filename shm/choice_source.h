// Where the choices of matrix products come from, and whether others are measured
// (docs/tuning.md). The values are sent on the wire, so new values are only added at the end.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace kvd {

enum class ChoiceSource : std::uint32_t {
  kDefaults = 0,         // nothing was measured on this machine with this model
  kMeasuredBefore = 1,   // the file of an earlier run
  kMeasuredAtStart = 2,  // measured by this run before its first step (--retune)
  kOff = 3,              // the defaults, because of --no-tuning
  kDeterministic = 4,    // the defaults, because of --deterministic
};

enum class TuningProgress : std::uint32_t {
  kNothingToDo = 0,  // measured before, switched off, or no alternatives
  kWaits = 1,        // for the daemon to be idle
  kMeasures = 2,
  kMeasured = 3,
};

constexpr std::string_view ChoiceSourceName(ChoiceSource source) {
  constexpr std::string_view kNames[] = {"defaults", "measured before", "measured at the start",
                                         "off", "deterministic"};
  const auto number = static_cast<std::size_t>(source);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

constexpr std::string_view TuningProgressName(TuningProgress progress) {
  constexpr std::string_view kNames[] = {"nothing to do", "waits until idle", "measures",
                                         "measured"};
  const auto number = static_cast<std::size_t>(progress);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

}  // namespace kvd
