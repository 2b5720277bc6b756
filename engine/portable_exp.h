// The exponential that sampling uses: the same bits on every machine and with every compiler, since
// it is made of single-rounded f32 operations in a fixed order and calls no library.
//
// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2; exp(r) by a polynomial of
// degree 6 (Taylor's, as good as its f32 rounding there). Relative error under 3e-7.
#pragma once

#include <span>

namespace kvd {

// e^x for x <= 0; exactly 0 below -87, where the result would be subnormal. REQUIRES: x <= 0.
float PortableExp(float x);

// Sum of e^(logit - logit_max). REQUIRES: no logit is above logit_max or NaN; logit_max is finite.
double SumExp(std::span<const float> logits, float logit_max);

// The largest one; -infinity when there are none; NaN when one is NaN.
float MaxOrNan(std::span<const float> logits);

}  // namespace kvd
