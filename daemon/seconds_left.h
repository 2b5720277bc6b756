// SecondsLeft: the time until a sequence or snapshot expires, as lists show it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvd {

// Returns the seconds from `now_ms` to `expires_ms`, rounded up and at least 1; 0 if `expires_ms`
// is 0, which means that nothing expires.
constexpr std::uint32_t SecondsLeft(std::uint64_t expires_ms, std::uint64_t now_ms) {
  if (expires_ms == 0) return 0;
  const std::uint64_t left_ms = expires_ms > now_ms ? expires_ms - now_ms : 0;
  constexpr std::uint64_t kMax = 0xffff'ffff;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(left_ms / 1000 + (left_ms % 1000 != 0), 1, kMax));
}

}  // namespace kvd
