// Rounds integers up.
#pragma once

#include <cstdint>

namespace kvd {

// Returns value / unit, rounded up. REQUIRES: unit > 0; value + unit - 1 does not overflow.
constexpr std::uint64_t DivideUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit;
}
// Returns the smallest multiple of `unit` that is at least `value`. REQUIRES: as for DivideUp.
constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return DivideUp(value, unit) * unit;
}

}  // namespace kvd
