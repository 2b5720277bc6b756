// Tests each sampler by itself against a naive implementation in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "engine/forward/compute/portable_math.h"
#include "engine/sampling/adaptive_draws.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/sampler_steps.h"

namespace kvd::samplers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Candidate> RandomCandidates(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < count; ++i) {
    // Some logits are equal.
    const float logit = std::round(normal(random) * 64) / 64;
    candidates.push_back({logit, static_cast<TokenId>(i)});
  }
  std::ranges::shuffle(candidates, random);
  return candidates;
}

std::vector<Candidate> Sorted(std::vector<Candidate> candidates) {
  std::ranges::sort(candidates, IsLikelier);
  return candidates;
}

std::vector<double> NaiveShares(const std::vector<Candidate>& candidates) {
  double largest = -1e300;
  for (const Candidate& candidate : candidates)
    largest = std::max<double>(largest, candidate.logit);
  std::vector<double> shares;
  double total = 0;
  for (const Candidate& candidate : candidates) {
    total += shares.emplace_back(std::exp(candidate.logit - largest));
  }
  for (double& share : shares) share /= total;
  return shares;
}

std::vector<TokenId> TokensOf(const std::vector<Candidate>& candidates) {
  std::vector<TokenId> tokens;
  for (const Candidate& candidate : candidates) tokens.push_back(candidate.token);
  std::ranges::sort(tokens);
  return tokens;
}

// ---- portable functions

TEST(PortableMathTest, LogarithmAndExponentialAreExactTo14Digits) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 20'000; ++i) {
    const double x = exponent(random);
    EXPECT_NEAR(PortableExpDouble(x) / std::exp(x), 1, 1e-13) << x;
    const double y = std::exp(x);
    EXPECT_NEAR(PortableLog(y), std::log(y), 1e-13 * (1 + std::fabs(x))) << y;
  }
  EXPECT_EQ(PortableLog(1), 0);
  EXPECT_EQ(PortableExpDouble(0), 1);
  EXPECT_EQ(PortableExpDouble(-1e9), 0);
  EXPECT_EQ(PortableExpDouble(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_GT(PortableExpDouble(1e9), 1e300);
  EXPECT_NEAR(PortableLog(std::numeric_limits<double>::denorm_min()), -744.44, 0.01);
}

TEST(PortableMathTest, PowersReachTheirLimits) {
  EXPECT_EQ(PortablePow(0, 0), 1);
  EXPECT_EQ(PortablePow(0, 2), 0);
  EXPECT_EQ(PortablePow(5, 0), 1);
  EXPECT_NEAR(PortablePow(1.75, 10), std::pow(1.75, 10), 1e-10);
}

// ---- the order of candidates

TEST(CandidatesTest, KeepLikeliestKeepsTheMostLikelyInOrder) {
  std::mt19937 random(1);
  for (const std::size_t k : {1u, 2u, 17u, 99u, 100u, 5000u}) {
    std::vector<Candidate> candidates = RandomCandidates(random, 100);
    std::vector<Candidate> expected = Sorted(candidates);
    expected.resize(std::min<std::size_t>(k, 100));
    KeepLikeliest(candidates, k);
    ASSERT_EQ(candidates.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(candidates[i].token, expected[i].token);
    }
  }
}

// ---- top-n-sigma

TEST(TopNSigmaTest, KeepsLogitsWithinNDeviationsOfTheLargest) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<Candidate> candidates = RandomCandidates(random, 1 + random() % 300);
    const float n = static_cast<float>(1 + random() % 30) / 10;
    double mean = 0, variance = 0, largest = -1e300;
    for (const Candidate& candidate : candidates) {
      mean += candidate.logit / static_cast<double>(candidates.size());
      largest = std::max<double>(largest, candidate.logit);
    }
    for (const Candidate& candidate : candidates) {
      variance += std::pow(candidate.logit - mean, 2) / static_cast<double>(candidates.size());
    }
    std::vector<Candidate> expected = candidates;
    std::erase_if(expected, [&](const Candidate& candidate) {
      return candidate.logit < largest - n * std::sqrt(variance);
    });
    KeepTopNSigma(candidates, n);
    EXPECT_EQ(TokensOf(candidates), TokensOf(expected));
  }
}

TEST(TopNSigmaTest, EqualLogitsAreAllKept) {
  std::vector<Candidate> candidates(5, Candidate{1.5f, 0});
  KeepTopNSigma(candidates, 0.001f);
  EXPECT_EQ(candidates.size(), 5u);
}

// ---- XTC

TEST(XtcTest, RemovesTopChoicesButTheLeastLikelyOne) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Candidate> candidates = RandomCandidates(random, 1 + random() % 50);
    const float threshold = static_cast<float>(random() % 500) / 1000;
    std::vector<Candidate> expected = Sorted(candidates);
    const std::vector<double> shares = NaiveShares(expected);
    std::size_t top = 0;
    bool is_close = false;  // within the error of the portable exponential
    for (const double share : shares) {
      top += share >= threshold ? 1u : 0u;
      is_close = is_close || std::fabs(share - threshold) < 1e-6;
    }
    if (is_close) continue;
    if (top > 1) {
      expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(top - 1));
    }
    ExcludeTopChoices(candidates, threshold);
    EXPECT_EQ(TokensOf(candidates), TokensOf(expected)) << threshold;
  }
}

TEST(XtcTest, OfEqualTopChoicesTheHighestIdStays) {
  std::vector<Candidate> candidates = {{1, 4}, {1, 2}, {1, 9}, {-9, 1}};
  ExcludeTopChoices(candidates, 0.1f);
  EXPECT_THAT(TokensOf(candidates), ElementsAre(1, 9));
}

// ---- temperature

TEST(TemperatureTest, DynamicTemperatureFollowsTheEntropy) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Candidate> candidates = RandomCandidates(random, 2 + random() % 100);
    const float temperature = static_cast<float>(random() % 20) / 10;
    const float range = static_cast<float>(1 + random() % 20) / 10;
    const float exponent = static_cast<float>(random() % 30) / 10;
    double entropy = 0;
    for (const double share : NaiveShares(candidates)) {
      if (share > 0) entropy -= share * std::log(share);
    }
    const double part = entropy / std::log(static_cast<double>(candidates.size()));
    const double low = std::max(0.0, double{temperature} - range);
    const double expected = low + (temperature + range - low) * std::pow(part, exponent);
    EXPECT_NEAR(DynamicTemperature(candidates, temperature, range, exponent), expected, 1e-5);
  }
}

TEST(TemperatureTest, OneCandidateOrNoRangeHasThePlainTemperature) {
  EXPECT_EQ(DynamicTemperature(std::vector<Candidate>{{3, 1}}, 0.7f, 0.5f, 1), 0.7f);
  EXPECT_EQ(DynamicTemperature(std::vector<Candidate>{{3, 1}, {2, 0}}, 0.7f, 0, 1), 0.7f);
}

TEST(TemperatureTest, ACertainTokenHasTheLowestTemperatureAndEqualOnesTheHighest) {
  const std::vector<Candidate> certain = {{1000, 1}, {-1000, 0}};
  EXPECT_EQ(DynamicTemperature(certain, 0.7f, 0.5f, 1), 0.7f - 0.5f);
  EXPECT_EQ(DynamicTemperature(certain, 0.7f, 2, 1), 0);
  const std::vector<Candidate> equal = {{1, 1}, {1, 0}, {1, 2}};
  EXPECT_FLOAT_EQ(DynamicTemperature(equal, 0.7f, 0.5f, 1), 1.2f);
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(DynamicTemperature(equal, kMax, kMax, 1), kMax);
}

TEST(TemperatureTest, ScaledLogitsStayFiniteAndZeroKeepsTheLikeliest) {
  std::vector<Candidate> candidates = {{2, 1}, {-3, 0}, {2, 5}};
  ScaleLogits(candidates, 0.5f);
  EXPECT_EQ(candidates[0].logit, 4);
  EXPECT_EQ(candidates[1].logit, -6);
  ScaleLogits(candidates, std::numeric_limits<float>::denorm_min());
  for (const Candidate& candidate : candidates) EXPECT_TRUE(std::isfinite(candidate.logit));
  ScaleLogits(candidates, 0);
  EXPECT_THAT(TokensOf(candidates), ElementsAre(1));
}

// ---- mirostat

TEST(MirostatTest, Version2KeepsTheTokensOfAllowedSurprise) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    std::vector<Candidate> candidates = RandomCandidates(random, 1 + random() % 100);
    const float mu = static_cast<float>(random() % 800) / 100 - 0.5f;
    std::vector<TokenId> expected;
    const std::vector<double> shares = NaiveShares(candidates);
    bool is_close = false;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (-std::log2(shares[i]) <= mu) expected.push_back(candidates[i].token);
      is_close = is_close || std::fabs(-std::log2(shares[i]) - mu) < 1e-5;
    }
    if (is_close) continue;
    if (expected.empty()) expected = {Sorted(candidates).front().token};
    std::ranges::sort(expected);
    KeepSurprise(candidates, mu);
    EXPECT_EQ(TokensOf(candidates), expected) << mu;
  }
}

TEST(MirostatTest, Version1KeepsAsManyTokensAsTheFormulaSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Candidate> candidates = RandomCandidates(random, 2 + random() % 400);
    const float mu = static_cast<float>(random() % 1000) / 100;
    constexpr double kVocabulary = 5000;
    const std::vector<Candidate> sorted = Sorted(candidates);
    const std::vector<double> shares = NaiveShares(sorted);
    double t_b = 0, t_t = 0;
    for (std::size_t i = 0; i + 1 < std::min<std::size_t>(100, shares.size()); ++i) {
      const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
      t_b += t * std::log(shares[i] / shares[i + 1]);
      t_t += t * t;
    }
    const double s = t_b / t_t;
    const double e = s - 1;
    const double k = std::pow(e * std::exp2(mu) / (1 - std::pow(kVocabulary, -e)), 1 / s);
    if (!(std::fabs(k - std::round(k)) > 1e-3)) continue;
    const auto expected = static_cast<std::size_t>(
        std::clamp(std::floor(k), 1.0, static_cast<double>(candidates.size())));
    KeepZipf(candidates, mu, static_cast<std::uint32_t>(kVocabulary));
    ASSERT_EQ(candidates.size(), expected) << "mu " << mu << ", s " << s;
    for (std::size_t i = 0; i < expected; ++i) EXPECT_EQ(candidates[i].token, sorted[i].token);
  }
}

TEST(MirostatTest, DegenerateCandidatesKeepOneOrAll) {
  std::vector<Candidate> one = {{1, 3}};
  KeepZipf(one, 10, 100);
  EXPECT_THAT(TokensOf(one), ElementsAre(3));
  std::vector<Candidate> equal(7, Candidate{2, 0});
  KeepZipf(equal, 10, 100);
  EXPECT_EQ(equal.size(), 7u);
  // s = 1, where the formula has a limit.
  std::vector<Candidate> zipf;
  for (int i = 1; i <= 50; ++i) zipf.push_back({-std::log(static_cast<float>(i)), i});
  KeepZipf(zipf, 3, 50);
  EXPECT_EQ(zipf.size(), static_cast<std::size_t>(8 / std::log(50.0)));
  std::vector<Candidate> far = {{3e38f, 0}, {-3e38f, 1}};
  KeepZipf(far, 10, 100);
  EXPECT_GE(far.size(), 1u);
}

TEST(MirostatTest, MuFollowsTheSurprise) {
  EXPECT_FLOAT_EQ(AdaptedMu(10, 0.25, 5, 0.1f), 10 - 0.1f * (2 - 5));
  EXPECT_FLOAT_EQ(AdaptedMu(10, 1, 0, 0.5f), 10);
  EXPECT_TRUE(std::isfinite(AdaptedMu(-1e30f, 1e-300, 1000, 1000)));
}

// ---- adaptive-p

TEST(AdaptivePTest, PrefersCandidatesNearTheTarget) {
  std::mt19937 random(8);
  const std::vector<Candidate> candidates = RandomCandidates(random, 40);
  const std::vector<double> shares = NaiveShares(candidates);
  for (const double preferred : {0.0, 0.1, 0.5, 1.0}) {
    const NearShares near(candidates, preferred);
    std::vector<double> expected;
    double total = 0;
    double near_total = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double distance = std::fabs(shares[i] - preferred) / 0.3;
      total += expected.emplace_back(std::exp(5 - 10 * distance * distance / (1 + distance)));
      near_total += near(candidates[i]);
      EXPECT_NEAR(near.Share(candidates[i]), shares[i], 1e-6);
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT_NEAR(near(candidates[i]) / near_total, expected[i] / total, 1e-6) << preferred;
    }
  }
}

TEST(AdaptivePTest, TheTargetCompensatesTheAverage) {
  SamplingParams params = kPlainSampling;
  params.adaptive_target = 0.5f;
  params.adaptive_decay = 0.5f;
  SamplerAdaptation adaptation = InitialAdaptation(params);
  EXPECT_DOUBLE_EQ(PreferredShare(0.5f, adaptation), 0.5);
  adaptation = AdaptedAverage(adaptation, 0.9, 0.5f);  // (0.9 + 0.5 * 1) / (1 + 0.5 * 2)
  EXPECT_FLOAT_EQ(adaptation.adaptive_sum, 1.4f);
  EXPECT_FLOAT_EQ(adaptation.adaptive_weight, 2);
  EXPECT_NEAR(PreferredShare(0.5f, adaptation), 0.3, 1e-6);
  EXPECT_EQ(PreferredShare(1, {.mirostat_mu = 0, .adaptive_sum = 0, .adaptive_weight = 1}), 1);
  EXPECT_EQ(PreferredShare(0, {.mirostat_mu = 0, .adaptive_sum = 1, .adaptive_weight = 1}), 0);
  EXPECT_FLOAT_EQ(static_cast<float>(PreferredShare(0.3f, {})), 0.3f);
}

// ---- DRY

std::map<TokenId, std::size_t> NaiveContinuations(const std::vector<TokenId>& recent,
                                                  std::size_t allowed, std::size_t longest) {
  std::map<TokenId, std::size_t> lengths;
  for (std::size_t place = 1; place < recent.size(); ++place) {
    std::size_t length = 0;
    while (place + length < recent.size() && recent[place + length] == recent[length]) ++length;
    length = std::min(length, longest);
    if (length < allowed) continue;
    auto& known = lengths[recent[place - 1]];
    known = std::max(known, length + 1);
  }
  return lengths;
}

TEST(DryTest, FindsTheLongestRepetitionBeforeEachToken) {
  std::mt19937 random(9);
  for (int round = 0; round < 500; ++round) {
    SamplerScratch scratch;
    scratch.numbers.Reserve(10);
    const std::size_t letters = 1 + random() % 4;
    scratch.recent.resize(random() % 60);
    for (TokenId& token : scratch.recent) token = static_cast<TokenId>(random() % letters);
    SamplingParams params = kPlainSampling;
    params.dry_allowed_length = static_cast<std::int32_t>(random() % 5);
    const auto allowed = static_cast<std::size_t>(params.dry_allowed_length);
    std::map<TokenId, std::size_t> expected;
    if (scratch.recent.size() > allowed) {
      expected = NaiveContinuations(scratch.recent, allowed, scratch.recent.size());
    }
    FindContinuations(params, DryBreakers(), scratch);
    EXPECT_EQ(scratch.numbers.touched().size(), expected.size());
    for (const auto& [token, number] : expected) EXPECT_EQ(scratch.numbers[token], number);
  }
}

TEST(DryTest, BreakersEndRepetitionsAndAreNotPenalised) {
  // Token 3 is a breaker; 1 is the head of 1 2.
  const DryBreakers breakers({false, false, false, true}, {{.token = 1, .tail = 0}}, {{2}});
  EXPECT_FALSE(breakers.empty());
  EXPECT_TRUE(DryBreakers().empty());
  const auto since = [&](std::vector<TokenId> tokens) {
    std::ranges::reverse(tokens);
    return breakers.TokensSince(tokens);
  };
  EXPECT_EQ(since({5, 6, 7}), 3u);
  EXPECT_EQ(since({5, 3, 7}), 1u);
  EXPECT_EQ(since({5, 7, 3}), 0u);
  EXPECT_EQ(since({1, 2, 7}), 1u);
  EXPECT_EQ(since({1, 7, 2}), 3u) << "the tail does not follow";
  EXPECT_EQ(since({7, 2, 1}), 3u) << "the tail is missing";
  EXPECT_EQ(since({}), 0u);
  SamplerScratch scratch;
  scratch.numbers.Reserve(10);
  scratch.recent = {5, 3, 5, 3, 5};
  SamplingParams params = kPlainSampling;
  params.dry_allowed_length = 1;
  FindContinuations(params, breakers, scratch);
  EXPECT_THAT(scratch.numbers.touched(), IsEmpty()) << "3 would continue, but is a breaker";
}

TEST(DryTest, ThePenaltyGrowsByTheBaseUpToTheLargestFloat) {
  SamplingParams params = kPlainSampling;
  params.dry_multiplier = 0.5f;
  params.dry_base = 2;
  EXPECT_NEAR(DryPenalty(params, 3), 0.5, 1e-9);
  EXPECT_NEAR(DryPenalty(params, 6), 4, 1e-9);
  EXPECT_TRUE(std::isfinite(static_cast<float>(DryPenalty(params, 1u << 31))));
  params.dry_base = 1;
  EXPECT_NEAR(DryPenalty(params, 1u << 31), 0.5, 1e-9);
}

TEST(TokenNumbersTest, ClearResetsChangedEntries) {
  TokenNumbers numbers;
  numbers.Reserve(5);
  numbers.Touch(3) = 7;
  ++numbers.Touch(3);
  ++numbers.Touch(1);
  EXPECT_EQ(numbers[3], 8u);
  EXPECT_THAT(numbers.touched(), ElementsAre(3, 1));
  numbers.Clear();
  EXPECT_EQ(numbers[3], 0u);
  EXPECT_THAT(numbers.touched(), IsEmpty());
}

}  // namespace
}  // namespace kvd::samplers_test
