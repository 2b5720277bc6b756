// ChooseExperts compared with a plain reference in double precision on seeded random logits.
#include "engine/forward/layers/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kvd {
namespace {

std::vector<ChosenExpert> Choose(const ExpertConfig& config, const std::vector<float>& logits,
                                 const std::vector<float>& bias) {
  std::vector<float> probabilities(config.count), selection(config.count);
  std::vector<ChosenExpert> chosen(config.used);
  ChooseExperts(config, logits, bias.empty() ? nullptr : bias.data(), probabilities, selection,
                chosen);
  return chosen;
}

std::vector<double> Probabilities(ExpertGating gating, const std::vector<float>& logits) {
  std::vector<double> p(logits.begin(), logits.end());
  if (gating == ExpertGating::kSigmoid) {
    for (double& x : p) x = 1.0 / (1.0 + std::exp(-x));
  } else if (gating == ExpertGating::kSoftmax) {
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x);
    for (double& x : p) x /= sum;
  }
  return p;
}

// Computes the expected choice from the definition in ExpertConfig.
std::vector<std::pair<std::size_t, double>> Expected(const ExpertConfig& config,
                                                     const std::vector<float>& logits,
                                                     const std::vector<float>& bias) {
  const std::vector<double> p = Probabilities(config.gating, logits);
  std::vector<double> selection = p;
  for (std::size_t i = 0; i < bias.size(); ++i) selection[i] += bias[i];
  if (config.group_count > 1) {
    const std::size_t size = config.count / config.group_count;
    std::vector<std::pair<double, std::size_t>> groups;
    for (std::size_t g = 0; g < config.group_count; ++g) {
      std::vector<double> members(selection.begin() + static_cast<std::ptrdiff_t>(g * size),
                                  selection.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      std::ranges::sort(members, std::greater<>());
      groups.emplace_back(-(members[0] + members[1]), g);
    }
    std::ranges::sort(groups);
    for (std::size_t i = config.groups_used; i < groups.size(); ++i) {
      std::fill_n(selection.begin() + static_cast<std::ptrdiff_t>(groups[i].second * size), size,
                  -std::numeric_limits<double>::infinity());
    }
  }
  std::vector<std::size_t> order(config.count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return selection[a] != selection[b] ? selection[a] > selection[b] : a < b;
  });
  std::vector<std::pair<std::size_t, double>> chosen;
  double sum = 0;
  for (std::size_t i = 0; i < config.used; ++i) {
    double weight = p[order[i]];
    if (config.gating == ExpertGating::kSoftmaxOfChosen) weight = std::exp(weight);
    chosen.emplace_back(order[i], weight);
    sum += weight;
  }
  const bool divides = config.is_normalised || config.gating == ExpertGating::kSoftmaxOfChosen;
  for (auto& entry : chosen) entry.second *= config.scale / (divides ? std::max(sum, 0x1p-14) : 1);
  return chosen;
}

TEST(ExpertChoiceTest, AgreesWithTheDefinitionForEveryRule) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  for (int round = 0; round < 600; ++round) {
    ExpertConfig config;
    config.group_count = 1u << below(3);
    config.count = config.group_count * (2 + below(9));
    config.groups_used = 1 + below(config.group_count);
    const std::uint32_t selectable = config.count / config.group_count * config.groups_used;
    config.used = 1 + below(std::min(selectable, 8u));
    config.gating = static_cast<ExpertGating>(1 + below(3));
    config.is_normalised = below(2) == 0;
    config.scale = below(2) == 0 ? 1.0f : 2.5f;
    std::vector<float> logits(config.count), bias(below(2) == 0 ? config.count : 0);
    for (float& x : logits) x = normal(random);
    for (float& x : bias) x = 0.1f * normal(random);
    const auto chosen = Choose(config, logits, bias);
    const auto expected = Expected(config, logits, bias);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      ASSERT_EQ(chosen[i].expert, expected[i].first) << "round " << round << ", choice " << i;
      ASSERT_NEAR(chosen[i].weight, expected[i].second, 2e-6 * (1 + std::abs(expected[i].second)));
    }
  }
}

TEST(ExpertChoiceTest, EqualExpertsAreChosenInOrderOfIndex) {
  ExpertConfig config;
  config.count = 6;
  config.used = 3;
  const auto chosen = Choose(config, std::vector<float>(6, 0.5f), {});
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(chosen[i].expert, i);
    EXPECT_NEAR(chosen[i].weight, 1.0 / 6, 1e-7);
  }
}

// The step reports numbers that are not finite. ChooseExperts only has to return valid, distinct
// experts.
TEST(ExpertChoiceTest, LogitsThatAreNotFiniteChooseDistinctExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ExpertGating gating :
       {ExpertGating::kSoftmax, ExpertGating::kSigmoid, ExpertGating::kSoftmaxOfChosen}) {
    for (const std::vector<float>& logits :
         {std::vector<float>(4, nan), std::vector<float>(4, -infinity),
          std::vector<float>{infinity, nan, -infinity, 1.0f}}) {
      for (const std::uint32_t groups : {1u, 2u}) {
        ExpertConfig config;
        config.count = 4;
        config.used = 2;
        config.group_count = groups;
        config.gating = gating;
        const auto chosen = Choose(config, logits, {});
        EXPECT_LT(chosen[0].expert, 4u);
        EXPECT_LT(chosen[1].expert, 4u);
        EXPECT_NE(chosen[0].expert, chosen[1].expert);
      }
    }
  }
}

}  // namespace
}  // namespace kvd
