// One template serves a single float and four lanes at once (GCC and clang's vector types, SSE2 on
// x86-64): each lane does exactly what the single float does.
#include "engine/portable_exp.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace kvd {
namespace {

constexpr std::size_t kLanes = 4;
using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));

constexpr float kBelow = -87.0f;
constexpr float kInverseLn2 = 0x1.715476p+0f;
constexpr float kRound = 0x1.8p+23f;        // adding it leaves the nearest integer in the low bits
constexpr float kLn2High = 0x1.62e400p-1f;  // few bits, so that n * kLn2High is exact
constexpr float kLn2Low = 0x1.7f7d1cp-20f;
constexpr int kExponentShift = 23;

// REQUIRES: kBelow <= x <= 0 in every lane.
template <class Floats, class Ints>
Floats ExpInRange(Floats x) {
  const Floats shifted = x * kInverseLn2 + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats p = r * (1.0f / 720) + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return std::bit_cast<Floats>(std::bit_cast<Ints>(p) +
                               (std::bit_cast<Ints>(shifted) << kExponentShift));
}

Float4 Load4(const float* from) {
  Float4 four;
  std::memcpy(&four, from, sizeof(four));
  return four;
}

}  // namespace

float PortableExp(float x) { return x < kBelow ? 0.0f : ExpInRange<float, std::uint32_t>(x); }

double SumExp(std::span<const float> logits, float logit_max) {
  // Lanes are summed in f32 over short runs only, then in double.
  constexpr std::size_t kRun = 64 * kLanes;
  double total = 0;
  std::size_t i = 0;
  while (i + kLanes <= logits.size()) {
    const std::size_t run_end = std::min(i + kRun, logits.size() / kLanes * kLanes);
    Float4 sum = {0, 0, 0, 0};
    for (; i < run_end; i += kLanes) {
      const Float4 x = Load4(&logits[i]) - logit_max;
      const Int4 tiny = x < kBelow;
      const Float4 clamped =
          std::bit_cast<Float4>((std::bit_cast<Int4>(x) & ~tiny));  // 0 in lanes of no weight
      sum += std::bit_cast<Float4>(std::bit_cast<Int4>(ExpInRange<Float4, Int4>(clamped)) & ~tiny);
    }
    total += (static_cast<double>(sum[0]) + sum[1]) + (static_cast<double>(sum[2]) + sum[3]);
  }
  for (; i < logits.size(); ++i) total += PortableExp(logits[i] - logit_max);
  return total;
}

float MaxOrNan(std::span<const float> logits) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Float4 largest = {kLowest, kLowest, kLowest, kLowest};
  Int4 is_nan = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    const Float4 x = Load4(&logits[i]);
    largest = x > largest ? x : largest;
    is_nan |= x != x;
  }
  float result = kLowest;
  bool has_nan = false;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    result = std::max(result, largest[lane]);
    has_nan |= is_nan[lane] != 0;
  }
  for (; i < logits.size(); ++i) {
    result = std::max(result, logits[i]);
    has_nan |= logits[i] != logits[i];
  }
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : result;
}

}  // namespace kvd
