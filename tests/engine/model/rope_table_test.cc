#include "engine/model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/kernel_table.h"

namespace kvd {
namespace {

TEST(RopeTableTest, RotatingByTheDifferenceConvertsBetweenRotations) {
  RopeConfig config;
  config.rotated_dim = 8;
  config.attention_factor = 1.5f;
  const float long_factors[] = {1.0f, 2.0f, 5.0f, 30.0f};
  const RopeTable table(config, nullptr), long_table(config, long_factors);
  const kernels::KernelTable& kernels = *kernels::ScalarTable();
  const std::vector<float> row = {1, -2, 3, 4, 0.5f, 7, -1, 2};
  std::vector<float> cosine(4), sine(4);
  const auto rotated = [&](std::vector<float> x) {
    kernels.rope(x.data(), 1, 8, 8, false, cosine.data(), sine.data());
    return x;
  };
  table.Fill(900, cosine.data(), sine.data());
  const std::vector<float> before = rotated(row);
  long_table.Fill(31, cosine.data(), sine.data());
  const std::vector<float> expected = rotated(row);
  long_table.FillDifference(table, Pos{900}, Pos{31}, cosine.data(), sine.data());
  const std::vector<float> after = rotated(before);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(after[i], expected[i], 2e-6) << i;
}

}  // namespace
}  // namespace kvd
