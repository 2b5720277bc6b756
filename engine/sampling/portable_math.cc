// log(x) = e * ln 2 + log(m) with x = m * 2^e and m in [sqrt(1/2), sqrt(2)), and log(m) is the
// series 2 * (t + t^3/3 + t^5/5 + ...) of t = (m - 1) / (m + 1), where |t| < 0.172.
//
// e^x = 2^n * e^r with n = round(x / ln 2), and e^r is a Taylor polynomial of |r| <= ln(2) / 2.
#include "engine/sampling/portable_math.h"

#include <algorithm>
#include <cmath>

namespace kvd {
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
