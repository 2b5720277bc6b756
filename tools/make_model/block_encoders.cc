#include "tools/make_model/block_encoders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/half.h"

namespace kvd {
namespace {

using kernels::F16FromF32;
using kernels::F32FromF16;

float Inverse(float number) { return number == 0.0f ? 0.0f : 1.0f / number; }

float Magnitude(std::span<const float> x) {
  float magnitude = 0.0f;
  for (float value : x) magnitude = std::max(magnitude, std::fabs(value));
  return magnitude;
}

int Rounded(float number, int low, int high) {
  return std::clamp(static_cast<int>(std::lround(number)), low, high);
}

std::uint8_t Byte(int bits) { return static_cast<std::uint8_t>(bits); }

// Returns the index of the value that is nearest to `number`.
int Nearest(const std::int8_t (&values)[16], float number) {
  int nearest = 0;
  for (int i = 1; i < 16; ++i) {
    if (std::fabs(values[i] - number) < std::fabs(values[nearest] - number)) nearest = i;
  }
  return nearest;
}

// Returns the sum of squared errors if each number is rounded to the nearest of `values` times
// `scale`.
float TableError(const std::int8_t (&values)[16], std::span<const float> x, float scale) {
  const float inverse = Inverse(scale);
  float error = 0.0f;
  for (float value : x) {
    const float rest = value - scale * static_cast<float>(values[Nearest(values, value * inverse)]);
    error += rest * rest;
  }
  return error;
}

// Returns the scale for kIQ4Values with the least error. Each tried scale maps the number with the
// greatest magnitude, with either sign, to an outer level or between two outer levels.
float IQ4Scale(std::span<const float> x) {
  const float magnitude = Magnitude(x);
  float best = 0.0f, least = std::numeric_limits<float>::infinity();
  for (const int level : {80, 85, 90, 95, 100, 104, 108, 113, 118, 123, 127, 131}) {
    for (const float sign : {1.0f, -1.0f}) {
      const float scale = sign * magnitude / static_cast<float>(level);
      const float error = TableError(kernels::kIQ4Values, x, scale);
      if (error < least) best = scale, least = error;
    }
  }
  return best;
}

// Writes the level indices of 32 numbers as nibbles, in 16 bytes.
void PutNibbles(const std::int8_t (&values)[16], std::span<const float> x, float scale,
                std::uint8_t* qs) {
  const float inverse = Inverse(scale);
  for (std::size_t j = 0; j < 16; ++j) {
    qs[j] = Byte(Nearest(values, x[j] * inverse) | Nearest(values, x[16 + j] * inverse) << 4);
  }
}

}  // namespace

kernels::BlockIQ4_NL EncodeIQ4_NL(std::span<const float> x) {
  kernels::BlockIQ4_NL block = {};
  block.d = F16FromF32(IQ4Scale(x));
  PutNibbles(kernels::kIQ4Values, x, F32FromF16(block.d), block.qs);
  return block;
}

kernels::BlockIQ4_XS EncodeIQ4_XS(std::span<const float> x) {
  kernels::BlockIQ4_XS block = {};
  std::array<float, 8> scale;
  for (std::size_t p = 0; p < 8; ++p) scale[p] = IQ4Scale(x.subspan(32 * p, 32));
  block.d = F16FromF32(Magnitude(scale) / 31.0f);
  const float d = F32FromF16(block.d);
  for (std::size_t p = 0; p < 8; ++p) {
    const int integer = Rounded(scale[p] * Inverse(d), -32, 31), bits = integer + 32;
    block.scales_l[p / 2] = Byte(block.scales_l[p / 2] | (bits & 15) << (p % 2 * 4));
    block.scales_h = static_cast<std::uint16_t>(block.scales_h | bits >> 4 << (2 * p));
    PutNibbles(kernels::kIQ4Values, x.subspan(32 * p, 32), d * static_cast<float>(integer),
               block.qs + 16 * p);
  }
  return block;
}

kernels::BlockMXFP4 EncodeMXFP4(std::span<const float> x) {
  kernels::BlockMXFP4 block = {};
  const float magnitude = Magnitude(x);
  if (magnitude == 0.0f) return block;
  // The greatest level is 12 times the scale 2^(e - 128).
  const int middle = std::ilogb(magnitude / 12.0f) + 128;
  float least = std::numeric_limits<float>::infinity();
  for (int e = std::max(middle - 1, 0); e <= std::min(middle + 1, 254); ++e) {
    const float error = TableError(kernels::kMXFP4Values, x, std::ldexp(1.0f, e - 128));
    if (error < least) block.e = Byte(e), least = error;
  }
  PutNibbles(kernels::kMXFP4Values, x, std::ldexp(1.0f, block.e - 128), block.qs);
  return block;
}

kernels::BlockQ2_K EncodeQ2_K(std::span<const float> x) {
  kernels::BlockQ2_K block = {};
  std::array<float, 16> scale, minimum;  // minimum: the distance of a part's least value below 0
  for (std::size_t i = 0; i < 16; ++i) {
    auto [low, high] = std::ranges::minmax(x.subspan(16 * i, 16));
    minimum[i] = std::max(0.0f, -low);
    scale[i] = (std::max(high, 0.0f) + minimum[i]) / 3.0f;
  }
  block.d = F16FromF32(std::ranges::max(scale) / 15.0f);
  block.dmin = F16FromF32(std::ranges::max(minimum) / 15.0f);
  const float d = F32FromF16(block.d), dmin = F32FromF16(block.dmin);
  for (std::size_t i = 0; i < 16; ++i) {
    const std::span<const float> part = x.subspan(16 * i, 16);
    const auto put = [&](int integer_scale, int integer_minimum, std::uint8_t* q) {
      const float step = d * static_cast<float>(integer_scale);
      const float below = dmin * static_cast<float>(integer_minimum);
      float error = 0.0f;
      for (std::size_t j = 0; j < 16; ++j) {
        const int level = Rounded((part[j] + below) * Inverse(step), 0, 3);
        const float rest = part[j] - (step * static_cast<float>(level) - below);
        error += rest * rest;
        q[j] = Byte(level);
      }
      return error;
    };
    const int middle_scale = Rounded(scale[i] * Inverse(d), 0, 15);
    const int middle_minimum = Rounded(minimum[i] * Inverse(dmin), 0, 15);
    float least = std::numeric_limits<float>::infinity();
    std::array<std::uint8_t, 16> best = {};
    for (int s = std::max(middle_scale - 4, 0); s <= middle_scale; ++s) {
      for (int m = std::max(middle_minimum - 4, 0); m <= middle_minimum; ++m) {
        std::array<std::uint8_t, 16> q;
        const float error = put(s, m, q.data());
        if (error >= least) continue;
        least = error, best = q;
        block.scales[i] = Byte(s | m << 4);
      }
    }
    const std::size_t p = i / 2;
    for (std::size_t j = 0; j < 16; ++j) {
      std::uint8_t& byte = block.qs[p / 4 * 32 + i % 2 * 16 + j];
      byte = Byte(byte | best[j] << (2 * (p % 4)));
    }
  }
  return block;
}

kernels::BlockQ3_K EncodeQ3_K(std::span<const float> x) {
  kernels::BlockQ3_K block = {};
  block.d = F16FromF32(Magnitude(x) / (4.0f * 31.0f));
  const float d = F32FromF16(block.d);
  for (std::size_t i = 0; i < 16; ++i) {
    const std::span<const float> half = x.subspan(16 * i, 16);
    int scale = 0;
    float least = std::numeric_limits<float>::infinity();
    for (int s = -32; s <= 31; ++s) {
      const float step = d * static_cast<float>(s), inverse = Inverse(step);
      float error = 0.0f;
      for (float value : half) {
        const float rest = value - step * static_cast<float>(Rounded(value * inverse, -4, 3));
        error += rest * rest;
      }
      if (error < least) scale = s, least = error;
    }
    const int bits = scale + 32;
    block.scales[i % 8] = Byte(block.scales[i % 8] | (bits & 15) << (i / 8 * 4));
    block.scales[8 + i % 4] = Byte(block.scales[8 + i % 4] | bits >> 4 << (2 * (i / 4)));
    const float inverse = Inverse(d * static_cast<float>(scale));
    const std::size_t p = i / 2;
    for (std::size_t j = 0; j < 16; ++j) {
      const int q = Rounded(half[j] * inverse, -4, 3) + 4;
      const std::size_t at = i % 2 * 16 + j;
      block.qs[p / 4 * 32 + at] = Byte(block.qs[p / 4 * 32 + at] | (q & 3) << (2 * (p % 4)));
      block.hmask[at] = Byte(block.hmask[at] | q >> 2 << p);
    }
  }
  return block;
}

}  // namespace kvd
