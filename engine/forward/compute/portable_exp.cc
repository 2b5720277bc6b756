// Four lanes at once (vector types of GCC and clang, SSE2 on x86-64). Each lane does exactly what
// the function of a single float does.
#include "engine/forward/compute/portable_exp.h"

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

Float4 Load4(const float* from) {
  Float4 four;
  std::memcpy(&four, from, sizeof(four));
  return four;
}

}  // namespace

double SumExp(std::span<const float> logits, float logit_max) {
  // Lanes are summed in f32 within short runs only, and the runs in double.
  constexpr std::size_t kRun = 64 * kLanes;
  double total = 0;
  std::size_t i = 0;
  while (i + kLanes <= logits.size()) {
    const std::size_t run_end = std::min(i + kRun, logits.size() / kLanes * kLanes);
    Float4 sum = {0, 0, 0, 0};
    for (; i < run_end; i += kLanes) {
      const Float4 x = Load4(&logits[i]) - logit_max;
      const Int4 tiny = x < kPortableExpBelow;
      const Float4 clamped =
          std::bit_cast<Float4>((std::bit_cast<Int4>(x) & ~tiny));  // 0 in lanes whose weight is 0
      sum += std::bit_cast<Float4>(std::bit_cast<Int4>(PortableExpInRange<Float4, Int4>(clamped)) &
                                   ~tiny);
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
