#include "engine/forward/compute/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvd::portable_exp_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(PortableExpTest, TheErrorStaysWithinTheBoundOverTheWholeRange) {
  double worst = 0;
  for (float x = -87.0f; x <= 0.0f; x += 1.0f / 4096) {
    const double exact = std::exp(double{x});
    worst = std::max(worst, std::fabs(PortableExp(x) - exact) / exact);
  }
  EXPECT_LT(worst, 3e-7);
}

TEST(PortableExpTest, ResultsAtTheEndsOfTheRangeAreExact) {
  EXPECT_EQ(PortableExp(0.0f), 1.0f);
  EXPECT_EQ(PortableExp(-0.0f), 1.0f);
  EXPECT_EQ(PortableExp(-87.001f), 0.0f);
  EXPECT_EQ(PortableExp(-kInfinity), 0.0f);
}

TEST(SumExpTest, AgreesWithDoublesAtEveryLength) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-100.0f, 3.0f);
  for (const std::size_t count : {0u, 1u, 3u, 4u, 5u, 255u, 256u, 257u, 1023u, 100'001u}) {
    std::vector<float> logits(count);
    double expected = 0;
    for (float& logit : logits) expected += std::exp(double{logit = uniform(random)} - 3.0);
    if (count > 3) expected -= std::exp(double{logits[2]} - 3.0), logits[2] = -kInfinity;
    EXPECT_NEAR(SumExp(logits, 3.0f), expected, expected * 1e-6) << count;
  }
}

TEST(MaxOrNanTest, FindsTheLargestValueAndAnyNanAtEveryIndex) {
  for (std::size_t count = 1; count < 20; ++count) {
    for (std::size_t at = 0; at < count; ++at) {
      std::vector<float> logits(count, -5.0f);
      logits[at] = -1.0f;
      EXPECT_EQ(MaxOrNan(logits), -1.0f);
      logits[at] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(MaxOrNan(logits)));
    }
  }
  EXPECT_EQ(MaxOrNan({}), -kInfinity);
}

}  // namespace
}  // namespace kvd::portable_exp_test
