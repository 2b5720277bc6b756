#include "engine/forward/compute/portable_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace kvd {

// ---- portable exp
// Four lanes at once (vector types of GCC and clang, SSE2 on x86-64). Each lane does exactly what
// the function of a single float does.

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

// ---- portable math
// log(x) = e * ln 2 + log(m) with x = m * 2^e and m in [sqrt(1/2), sqrt(2)), and log(m) is the
// series 2 * (t + t^3/3 + t^5/5 + ...) of t = (m - 1) / (m + 1), where |t| < 0.172.
//
// e^x = 2^n * e^r with n = round(x / ln 2), and e^r is a Taylor polynomial of |r| <= ln(2) / 2.

namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // few bits, so that n * kLn2High is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kExponentMax = 700;

}  // namespace

double PortableLog(double x) {
  constexpr double kSqrtHalf = 0.70710678118654752;
  constexpr int kTerms = 12;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double sum = 0;
  for (int term = kTerms; term > 0; --term) sum = sum * square + 1.0 / (2 * term - 1);
  return exponent * kLn2High + (exponent * kLn2Low + 2 * t * sum);
}

double PortableExpDouble(double x) {
  constexpr int kDegree = 14;
  if (x < -kExponentMax) return 0;
  x = std::min(x, kExponentMax);
  const double n = std::floor(x / kLn2 + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1;
  for (int i = kDegree; i > 0; --i) sum = sum * r / i + 1;
  return std::ldexp(sum, static_cast<int>(n));
}

double PortablePow(double base, double exponent) {
  if (exponent == 0) return 1;
  if (base == 0) return 0;
  return PortableExpDouble(exponent * PortableLog(base));
}

}  // namespace kvd
