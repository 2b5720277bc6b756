// The error of golden tests, for tests of two ways to compute the same logits.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace kvd::test {

// Returns the sum of squared differences divided by the sum of squares of `expected`; infinity if
// the sizes differ, if there is nothing to compare, or for a NaN.
inline double NormalisedError(const std::vector<float>& actual,
                              const std::vector<float>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.size() != expected.size()) return kInfinity;
  double differences = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - static_cast<double>(expected[i]);
    differences += difference * difference;
    squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  const double error = differences / squares;
  return std::isnan(error) ? kInfinity : error;
}

}  // namespace kvd::test
