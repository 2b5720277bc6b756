#include "engine/forward/compute/row_functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvd {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ActivationsTest, EveryActivationIsCloseToItsFormula) {
  for (float x = -80.0f; x <= 80.0f; x += 0.0371f) {
    const double wide = x;
    EXPECT_NEAR(Exponential(x) / std::exp(wide), 1.0, 1e-6) << x;
    EXPECT_NEAR(Logistic(x) * (1 + std::exp(-wide)), 1.0, 1e-6) << x;
    EXPECT_NEAR(Softplus(x), std::log1p(std::exp(wide)), 1e-6 * (1 + std::fabs(wide))) << x;
  }
  EXPECT_EQ(Exponential(0.0f), 1.0f);
  EXPECT_EQ(Logistic(0.0f), 0.5f);
}

TEST(ActivationsTest, StayFiniteForLargeInputsAndPassNan) {
  for (const float x : {-1e30f, -kInfinity}) {
    EXPECT_LT(Exponential(x), 1e-37f);
    EXPECT_LT(Logistic(x), 1e-37f);
    EXPECT_LT(Softplus(x), 1e-37f);
  }
  EXPECT_GT(Exponential(1e30f), 1e37f);
  EXPECT_TRUE(std::isfinite(Exponential(1e30f)));
  EXPECT_EQ(Logistic(1e30f), 1.0f);
  EXPECT_EQ(Softplus(1e30f), 1e30f);
  for (const float nan : {kNan, -kNan}) {
    EXPECT_TRUE(std::isnan(Exponential(nan)));
    EXPECT_TRUE(std::isnan(Logistic(nan)));
    EXPECT_TRUE(std::isnan(Softplus(nan)));
  }
}

TEST(ActivationsTest, ARowEqualsItsElementsComputedAlone) {
  std::vector<float> x;
  for (int i = 0; i < 37; ++i) x.push_back(static_cast<float>(i) * 0.7f - 12.0f);
  x.push_back(kNan);
  std::vector<float> e(x.size()), logistic(x.size()), relu = x;
  Exponentials(x.data(), x.size(), e.data());
  Logistics(x.data(), x.size(), logistic.data());
  SquaredRelu(relu.data(), relu.size(), relu.data());
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    EXPECT_EQ(e[i], Exponential(x[i]));
    EXPECT_EQ(logistic[i], Logistic(x[i]));
    EXPECT_EQ(relu[i], x[i] > 0 ? x[i] * x[i] : 0.0f);
  }
  EXPECT_TRUE(std::isnan(e.back()) && std::isnan(logistic.back()) && std::isnan(relu.back()));
}

TEST(LayerNormTest, CentresAndScalesRowsOfAnyLength) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(3.0f, 2.0f);
  for (const std::size_t n : {1, 7, 8, 64, 101}) {
    std::vector<float> x(n), weight(n), bias(n), y(n), bare(n), unbiased(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = normal(random), weight[i] = normal(random), bias[i] = normal(random);
    }
    double mean = 0, variance = 0;
    for (const float number : x) mean += number / static_cast<double>(n);
    for (const float number : x) variance += std::pow(number - mean, 2) / static_cast<double>(n);
    LayerNorm(x.data(), {weight.data(), bias.data()}, n, 1e-5f, y.data());
    LayerNorm(x.data(), {}, n, 1e-5f, bare.data());
    LayerNorm(x.data(), {.weight = weight.data()}, n, 1e-5f, unbiased.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double scaled = (x[i] - mean) / std::sqrt(variance + 1e-5f);
      EXPECT_NEAR(bare[i], scaled, 1e-5);
      EXPECT_NEAR(unbiased[i], scaled * weight[i], 1e-5 * (1 + std::fabs(unbiased[i])));
      EXPECT_NEAR(y[i], scaled * weight[i] + bias[i], 1e-5 * (1 + std::fabs(y[i])));
    }
  }
}

TEST(LayerNormTest, VectorsAreScaledToLengthOneUnlessTheyAreTooShort) {
  std::vector<float> x = {3, 0, 4, 0, 0, 0, 0, 0, 12};
  ScaleToUnitLength(x.data(), x.size(), 1e-6f);
  EXPECT_FLOAT_EQ(x[0], 3.0f / 13);
  EXPECT_FLOAT_EQ(x[8], 12.0f / 13);
  std::vector<float> small = {3e-9f, 4e-9f};
  ScaleToUnitLength(small.data(), small.size(), 1e-6f);
  EXPECT_FLOAT_EQ(small[1], 4e-3f);
  std::vector<float> broken = {1, kNan};
  ScaleToUnitLength(broken.data(), broken.size(), 1e-6f);
  EXPECT_TRUE(std::isnan(broken[0]));
}

}  // namespace
}  // namespace kvd
