// Computes single products directly from the definition of the numeric form
// (kernels/kernel_table.h).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"
#include "tests/kernels/random_product.h"

namespace kvd::kernels {
namespace {

// Computes one product directly from the definition of the numeric form in kernels/kernel_table.h.
TEST(NumericFormTest, ASumIsSixteenPartialSumsAndATree) {
  Numbers numbers(18);
  const std::size_t n = 77;
  const RandomProduct product(&numbers, DataType::kF32, n, 1, 1);
  const std::vector<float> y = product.Run(*ScalarTable(), 0, 1);
  const auto* w = reinterpret_cast<const float*>(product.weights.data());
  float s[16] = {};
  for (std::size_t j = 0; j < n; ++j) s[j % 16] = std::fma(product.x[j], w[j], s[j % 16]);
  for (const std::size_t width : {8u, 4u, 2u, 1u}) {
    for (std::size_t i = 0; i < width; ++i) s[i] += s[i + width];
  }
  EXPECT_EQ(BitsOf(y[0]), BitsOf(s[0]));
}

// Computes one product with the order of sums of VDPBF16PS and TDPBF16PS, as defined in
// kernels/kernel_table.h.
TEST(NumericFormTest, ASumWithF16WeightsAddsPairsInOrder) {
  Numbers numbers(27);
  const std::size_t n = 77;
  const RandomProduct product(&numbers, DataType::kBF16, n, 1, 1);
  const auto normal = [](double value) {
    return std::fabs(value) < 0x1p-126 ? 0.0f : static_cast<float>(value);
  };
  const auto x = [&](std::size_t j) {
    return j < n ? normal(F32FromBF16(BF16FromF32(product.x[j]))) : 0.0f;
  };
  const auto w = [&](std::size_t j) {
    return j < n ? normal(NaiveElement(DataType::kBF16, product.weights.data(), j)) : 0.0f;
  };
  for (const char* const name : {"avx512", "amx"}) {
    const KernelChoice choice = SelectOrTrap(name);
    if (choice.table == nullptr || choice.table->round_rows == nullptr) continue;
    const bool tiles = std::string_view(name) == "amx";
    float sum = 0, even = 0, odd = 0;
    for (std::size_t j = 0; j < 96; j += 2) {
      if (tiles) {
        even = std::fma(x(j), w(j), even);
        odd = std::fma(x(j + 1), w(j + 1), odd);
        if (j % 32 == 30) sum += std::exchange(even, 0.0f) + std::exchange(odd, 0.0f);
      } else {
        sum = std::fma(x(j), w(j), std::fma(x(j + 1), w(j + 1), sum));
      }
    }
    EXPECT_EQ(BitsOf(product.Run(*choice.table, 0, 1, true)[0]), BitsOf(sum)) << name;
  }
}

TEST(NumericFormTest, ASumWithQuantisedWeightsIsFourPartialSumsOfExactIntegers) {
  Numbers numbers(22);
  const std::size_t n = 7 * 32;
  const RandomProduct product(&numbers, DataType::kQ4_1, n, 1, 1);
  const std::vector<float> y = product.Run(*ScalarTable(), 0, 1);
  float s[4] = {};
  for (std::size_t b = 0; b < 7; ++b) {
    const float* x = product.x.data() + 32 * b;
    const std::uint8_t* block = product.weights.data() + 20 * b;
    float largest = 0.0f;
    for (std::size_t j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x[j]));
    const float d = largest / 127.0f;
    int products = 0, sum = 0;
    for (std::size_t j = 0; j < 32; ++j) {
      const int q = static_cast<int>(std::nearbyint(x[j] * (1.0f / d)));
      products += q * (j < 16 ? block[4 + j] & 15 : block[4 + j - 16] >> 4);
      sum += q;
    }
    std::uint16_t halves[2];
    std::memcpy(halves, block, 4);
    s[b % 4] = std::fma(static_cast<float>(products), F32FromF16(halves[0]) * d, s[b % 4]);
    s[b % 4] = std::fma(F32FromF16(halves[1]), d * static_cast<float>(sum), s[b % 4]);
  }
  EXPECT_EQ(BitsOf(y[0]), BitsOf((s[0] + s[2]) + (s[1] + s[3])));
}

}  // namespace
}  // namespace kvd::kernels
