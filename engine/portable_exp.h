// The exponential that sampling uses: the same bits on every machine and with every compiler, since
// it is made of single-rounded f32 operations in a fixed order and calls no library.
//
// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2; exp(r) by a polynomial of
// degree 6 (Taylor's, as good as its f32 rounding there). Relative error under 3e-7.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace kvd {

inline constexpr float kPortableExpBelow = -87.0f;

// For a single float or a vector of them, and integers of the same width.
// REQUIRES: kPortableExpBelow <= x <= 0, everywhere.
template <class Floats, class Ints>
Floats PortableExpInRange(Floats x) {
  constexpr float kInverseLn2 = 0x1.715476p+0f;
  constexpr float kRound = 0x1.8p+23f;  // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0x1.62e400p-1f;  // few bits, so that n * kLn2High is exact
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

// e^x; exactly 0 below -87, where the result would be subnormal. REQUIRES: x <= 0.
inline float PortableExp(float x) {
  return x < kPortableExpBelow ? 0.0f : PortableExpInRange<float, std::uint32_t>(x);
}

// Sum of e^(logit - logit_max). REQUIRES: no logit is above logit_max or NaN; logit_max is finite.
double SumExp(std::span<const float> logits, float logit_max);

// The largest one; -infinity when there are none; NaN when one is NaN.
float MaxOrNan(std::span<const float> logits);

}  // namespace kvd
