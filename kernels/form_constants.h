// Constants of the numeric form that callers do not need: those of the exponentials and of
// attention.
#pragma once

#include <cstddef>

namespace kvd::kernels {

// Exp, the exponential of the numeric form: its constants and the order of operations that every
// table uses.
//
//   x <- min(x, kExpAbove), then max(x, kExpBelow)           a NaN passes
//   t  = fma(x, kLog2E, kExpRound)                           kExpRound = 1.5 * 2^23: the low bits
//   of t are n = round(x / ln 2)
//   n  = the bits of t - the bits of kExpRound
//   t  = t - kExpRound                                       n as a float
//   r  = fma(t, -kLn2High, x); r = fma(t, -kLn2Low, r)       |r| barely exceeds ln(2) / 2
//   p  = kExpC6; p = fma(p, r, kExpC5); ... kExpC2; p = fma(p, r, 1); p = fma(p, r, 1)
//   result = p * 2^n, rounded once: (p * 2^(n >> 1)) * 2^(n - (n >> 1)), where only the second
//   product can round
//
// The result of Exp is within 1 ulp of the true value for all floats. For -infinity and all values
// below -104 the result is +0. Results below 2^-126 are subnormal. Results above the largest float
// are +infinity. Exp(+-0) is exactly 1. The result is a NaN only if x is a NaN.
//
// Tanh is computed from e^2x - 1 in double, in a way that avoids cancellation near 0. The result of
// Tanh is rounded to f32 once at the end; about one result in 10,000 is not correctly rounded:
//
//   d <- min(2x, kTanhBound), then max(d, -kTanhBound)       a NaN passes; beyond, tanh rounds to 1
//   t  = fma(d, kTanhLog2E, kTanhRound)                      kTanhRound = 1.5 * 2^52
//   n, t as above; r = fma(t, -kTanhLn2High, d); r = fma(t, -kTanhLn2Low, r)
//   c  = kTanhC[0]; c = fma(c, r, kTanhC[i]), i ascending    Taylor series of (e^r - 1 - r) / r^2
//   q  = fma(c * r, r, r)
//   m  = fma(q, 2^n, 2^n - 1)                                e^2x - 1
//   result = m / (m + 2)
//
// kExpC2 ... kExpC6: the minimax polynomial of degree 4 (Remez) for (e^r - 1 - r) / r^2 with the
// weight r^2 / e^r, which minimises the relative error of e^r. The relative error of e^r is 3.1e-9
// before the coefficients are rounded to f32.
inline constexpr float kExpAbove = 89.0f;
inline constexpr float kExpBelow = -104.0f;
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kExpRound = 0x1.8p+23f;
inline constexpr float kLn2High = 0x1.62e430p-1f;
inline constexpr float kLn2Low = -0x1.05c610p-29f;
inline constexpr float kExpC2 = 0x1.fffffcp-2f;
inline constexpr float kExpC3 = 0x1.555492p-3f;
inline constexpr float kExpC4 = 0x1.5558f2p-5f;
inline constexpr float kExpC5 = 0x1.123a20p-7f;
inline constexpr float kExpC6 = 0x1.6a23d0p-10f;

inline constexpr double kTanhBound = 24.0;
inline constexpr double kTanhLog2E = 0x1.71547652b82fep+0;
inline constexpr double kTanhRound = 0x1.8p+52;
inline constexpr double kTanhLn2High = 0x1.62e42fefa39efp-1;
inline constexpr double kTanhLn2Low = 0x1.abc9e3b39803fp-56;
inline constexpr double kTanhC[] = {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                    1.0 / 120,    1.0 / 24,    1.0 / 6,    1.0 / 2};

// The exponential of plain attention: its constants and the order of operations that every table
// uses. Polynomial and reduction are those of Arm's Optimized Routines (expf for vectors). ggml
// uses the same polynomial and reduction, and plain attention must give ggml's bits
// (docs/decisions/0017).
//
//   z = fma(x, kPlainLog2E, kPlainRound)                 kPlainRound = 1.5 * 2^23
//   n = z - kPlainRound                                  round(x / ln 2)
//   b = fma(-n, kPlainLn2High, x); b = fma(-n, kPlainLn2Low, b); u = b * b
//   j = fma(fma(fma(kPlainC4, b, kPlainC3), u, fma(kPlainC2, b, kPlainC1)), u, fma(kPlainC0, b, 1))
//   result = j * 2^n, rounded once
//
// The argument is x <= 0. Below kPlainBelow, including -infinity, the result is +0. If x is a NaN,
// the result is a NaN.
inline constexpr float kPlainBelow = -104.0f;
inline constexpr float kPlainLog2E = 0x1.715476p+0f;
inline constexpr float kPlainRound = 0x1.8p+23f;
inline constexpr float kPlainLn2High = 0x1.62e4p-1f;
inline constexpr float kPlainLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kPlainC0 = 0x1.ffffecp-1f;
inline constexpr float kPlainC1 = 0x1.fffdb6p-2f;
inline constexpr float kPlainC2 = 0x1.555e66p-3f;
inline constexpr float kPlainC3 = 0x1.573e2ep-5f;
inline constexpr float kPlainC4 = 0x1.0e4020p-7f;

// A constant of attention's numeric form that callers do not need (kernels/kernel_table.h).

// Elements of a key whose products with a query form one partial sum.
inline constexpr std::size_t kScoreChunk = 24;

}  // namespace kvd::kernels
