// Tests plain attention: every kernel table computes the bits of the scalar table, and the results
// agree with the formulas.
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class PlainTest : public TableTest {};

TEST_P(PlainTest, DotsGiveTheScalarBits) {
  Numbers numbers(51);
  for (const std::size_t n : kLengths) {
    const std::size_t stride = n + 3;
    const Misaligned<float> a(numbers.Row(n), 4), rows(numbers.Row(9 * stride), 4);
    std::vector<float> expected(10, 77.0f), actual = expected;
    scalar_->plain_dots(a.get(), rows.get(), stride, 9, n, expected.data());
    table_->plain_dots(a.get(), rows.get(), stride, 9, n, actual.data());
    ASSERT_TRUE(SameBits(expected, actual)) << n;
    scalar_->lane_dots(a.get(), rows.get(), stride, 9, n, expected.data());
    table_->lane_dots(a.get(), rows.get(), stride, 9, n, actual.data());
    ASSERT_TRUE(SameBits(expected, actual)) << n;
  }
}

TEST_P(PlainTest, DotsAreSumsOfProducts) {
  Numbers numbers(52);
  for (const std::size_t n : {1u, 17u, 64u, 200u}) {
    const std::vector<float> a = numbers.Row(n), b = numbers.Row(n);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
    float dot = 0;
    table_->plain_dots(a.data(), b.data(), n, 1, n, &dot);
    EXPECT_NEAR(dot, sum, 1e-4);
    table_->lane_dots(a.data(), b.data(), n, 1, n, &dot);
    EXPECT_NEAR(dot, sum, 1e-4);
  }
}

TEST_P(PlainTest, SoftmaxGivesTheScalarBits) {
  Numbers numbers(53);
  for (const std::size_t n : kLengths) {
    if (n == 0) continue;
    for (const std::size_t lanes : {std::size_t{0}, n / 16 * 16}) {
      std::vector<float> x = numbers.Row(n);
      for (float& value : x) value *= 40.0f;
      if (n > 3) x[n / 2] = -kInfinity;
      std::vector<float> expected = x, actual = x;
      scalar_->plain_softmax(expected.data(), n, lanes);
      table_->plain_softmax(actual.data(), n, lanes);
      ASSERT_TRUE(SameBits(expected, actual)) << n << " " << lanes;
    }
  }
}

TEST_P(PlainTest, SoftmaxSumsToOneAndIgnoresMinusInfinity) {
  Numbers numbers(54);
  std::vector<float> x = numbers.Row(40);
  const std::vector<float> before = x;
  for (std::size_t i = 37; i < 40; ++i) x[i] = -kInfinity;
  table_->plain_softmax(x.data(), 40, 32);
  double sum = 0, expected_sum = 0;
  for (std::size_t i = 0; i < 37; ++i) expected_sum += std::exp(double{before[i]});
  for (std::size_t i = 0; i < 37; ++i) {
    sum += double{x[i]};
    EXPECT_NEAR(x[i], std::exp(double{before[i]}) / expected_sum, 1e-6);
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  for (std::size_t i = 37; i < 40; ++i) EXPECT_EQ(x[i], 0.0f);
}

TEST_P(PlainTest, NanStaysNan) {
  for (const std::size_t lanes : {0u, 16u}) {
    std::vector<float> x(20, 1.0f);
    x[3] = std::numeric_limits<float>::quiet_NaN();
    table_->plain_softmax(x.data(), 20, lanes);
    EXPECT_TRUE(std::isnan(x[3]));
    EXPECT_TRUE(std::isnan(x[19]));
  }
}

KVD_FOR_EVERY_TABLE(PlainTest);

}  // namespace
}  // namespace kvd::kernels
