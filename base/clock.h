// The wall clock, for times that are shown or stored. Code that measures durations uses
// std::chrono::steady_clock instead.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvd {

// Returns the milliseconds since 1970-01-01 00:00 UTC.
inline std::uint64_t NowUnixMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
}

}  // namespace kvd
