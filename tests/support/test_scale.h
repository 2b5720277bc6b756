// The size of random tests: KVD_TEST_SCALE multiplies their rounds. Sanitizer builds set it below
// 1, because they are 10 to 50 times slower. KVD_TEST_SEED chooses other random numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace kvd::test {

// Returns the number in KVD_TEST_SCALE; 1 if it is not set.
inline double TestScale() {
  const char* const scale = std::getenv("KVD_TEST_SCALE");
  return scale == nullptr ? 1.0 : std::strtod(scale, nullptr);
}

inline bool IsScaledDown() { return TestScale() < 1.0; }

// Returns the distance between the cases that run: 1, so that every case runs, or `scaled_down` if
// KVD_TEST_SCALE is below 1.
inline std::size_t Stride(std::size_t scaled_down) { return IsScaledDown() ? scaled_down : 1; }

// Returns `count` multiplied by the scale, at least `least`.
inline int Scaled(int count, int least = 1) {
  return std::max(least, static_cast<int>(count * TestScale()));
}

// Returns the number in KVD_TEST_SEED; 1 if it is not set.
inline std::uint64_t Seed() {
  const char* const seed = std::getenv("KVD_TEST_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

}  // namespace kvd::test
