// Comparison of floats bit by bit, for results that must not depend on how they were computed.
#pragma once

#include <cstring>
#include <vector>

namespace kvd::test {

// Returns whether both rows have the same floats, bit for bit. Empty rows are not the same, so that
// a test does not pass because nothing was computed.
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace kvd::test
