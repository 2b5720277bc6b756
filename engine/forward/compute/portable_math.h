// Exponentials and the logarithm with the same bits on every machine.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace kvd {

// The exponential function that sampling uses. The function gives the same bits on every machine
// and with every compiler because the function consists of f32 operations that are each rounded
// once, in a fixed order, and calls no library.
//
// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2. exp(r) is computed by a
// Taylor polynomial of degree 6, whose error for |r| <= ln(2) / 2 is within f32 rounding. The
// relative error of exp(x) is under 3e-7.
inline constexpr float kPortableExpBelow = -87.0f;

// e^x for one float or for each element of a vector of floats; Ints is the integer, or the vector
// of integers, of the same width. REQUIRES: kPortableExpBelow <= x <= 0 in all elements.
template <class Floats, class Ints>
Floats PortableExpInRange(Floats x) {
  constexpr float kInverseLn2 = 0x1.715476p+0f;
  constexpr float kRound = 0x1.8p+23f;  // adding it puts the nearest integer into the low bits
  constexpr float kLn2High = 0x1.62e400p-1f;  // has few bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  constexpr int kExponentShift = 23;
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

// e^x, and exactly 0 if x < -87. REQUIRES: x <= 0.
inline float PortableExp(float x) {
  return x < kPortableExpBelow ? 0.0f : PortableExpInRange<float, std::uint32_t>(x);
}

// Sum of e^(logit - logit_max). REQUIRES: no logit is above logit_max or NaN; logit_max is finite.
double SumExp(std::span<const float> logits, float logit_max);

// The largest logit; -infinity if there are none; NaN if one is NaN.
float MaxOrNan(std::span<const float> logits);

// Logarithm and exponential in double precision, for samplers.
//
// Both functions give the same bits on every machine and with every compiler, because they consist
// of operations that are each rounded once, in a fixed order, and call no library function except
// frexp and ldexp, which are exact. The relative error is below 1e-14. PortableExp is the
// faster exponential in single precision, for whole rows.

// The natural logarithm. REQUIRES: x > 0 and finite.
double PortableLog(double x);

// e^x; 0 for x below -700, e^700 for x above 700. REQUIRES: x is not NaN.
double PortableExpDouble(double x);

// base^exponent. REQUIRES: base >= 0 and finite; exponent is not NaN. 0^0 is 1.
double PortablePow(double base, double exponent);

}  // namespace kvd
