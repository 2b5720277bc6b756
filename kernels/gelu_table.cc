#include "kernels/gelu_table.h"

#include <array>
#include <cmath>

#include "kernels/half.h"

namespace kvd::kernels {
namespace {

constexpr std::uint16_t kNan = 0x7e00;

// GELU of one number, computed in f32. Only tanh is computed in double and rounded to f32, so that
// the result does not depend on the math library.
float Gelu(float x) {
  constexpr float kSqrt2OverPi = 0.79788456080286535587989211986876f;
  const float u = kSqrt2OverPi * x * (1.0f + 0.044715f * x * x);
  return 0.5f * x * (1.0f + static_cast<float>(std::tanh(static_cast<double>(u))));
}

std::array<std::uint16_t, 65536> MakeTable() {
  std::array<std::uint16_t, 65536> table;
  for (std::uint32_t bits = 0; bits < table.size(); ++bits) {
    const float x = F32FromF16(static_cast<std::uint16_t>(bits));
    table[bits] = std::isnan(x) ? kNan : F16FromF32(Gelu(x));
  }
  return table;
}

}  // namespace

const std::uint16_t* GeluTable() {
  static const std::array<std::uint16_t, 65536> table = MakeTable();
  return table.data();
}

}  // namespace kvd::kernels
