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
#pragma once

namespace kvd::kernels {

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

}  // namespace kvd::kernels
