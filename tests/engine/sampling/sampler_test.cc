// Compares the sampler with a naive implementation of each of its steps that sorts all tokens and
// adds in double precision.
#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "tests/support/allocation_counter.h"
#include "tests/support/test_scale.h"

namespace kvd::sampler_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler Make(const SamplerOptions& params, std::size_t vocab_size,
             std::span<const TokenId> end_tokens = {}) {
  auto sampler = Sampler::Create(params, static_cast<std::uint32_t>(vocab_size), end_tokens);
  EXPECT_TRUE(sampler.has_value()) << sampler.error().message;
  return std::move(*sampler);
}

SamplerOptions Greedy() {
  SamplerOptions params;
  params.sampling.temperature = 0;
  return params;
}

TokenId SampleOne(const SamplerOptions& params, const std::vector<float>& logits) {
  Sampler sampler = Make(params, logits.size());
  return sampler.Sample(logits)->token;
}

std::vector<float> RandomLogits(std::mt19937& random, std::size_t count, float width) {
  std::normal_distribution<float> normal(0.0f, width);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// ---- a naive model

struct Choice {
  TokenId token;
  double logit;
};

std::vector<double> Softmax(const std::vector<Choice>& choices) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const Choice& choice : choices) largest = std::max(largest, choice.logit);
  std::vector<double> shares;
  double total = 0;
  for (const Choice& choice : choices)
    total += shares.emplace_back(std::exp(choice.logit - largest));
  for (double& share : shares) share /= total;
  return shares;
}

void SortByLogit(std::vector<Choice>& choices) {
  std::ranges::sort(choices, [](const Choice& a, const Choice& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
}

void CutAtShare(std::vector<Choice>& choices, const std::vector<double>& shares, double goal) {
  double held = 0;
  std::size_t kept = 0;
  while (kept < choices.size() && held < goal) held += shares[kept++];
  choices.resize(kept);
}

void NaiveTypical(std::vector<Choice>& choices, double goal) {
  const std::vector<double> shares = Softmax(choices);
  double entropy = 0;
  for (const double share : shares) entropy -= share * std::log(share);
  std::vector<std::pair<double, Choice>> order;
  for (std::size_t i = 0; i < choices.size(); ++i)
    order.emplace_back(std::fabs(-std::log(shares[i]) - entropy), choices[i]);
  std::ranges::sort(order, std::less<>{}, [](const auto& entry) { return entry.first; });
  for (std::size_t i = 0; i < order.size(); ++i) choices[i] = order[i].second;
  CutAtShare(choices, Softmax(choices), goal);
}

// Returns the tokens that may be drawn with their probabilities.
std::map<TokenId, double> NaiveDistribution(const SamplerOptions& params,
                                            const std::vector<float>& logits) {
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < logits.size(); ++i)
    choices.push_back({static_cast<TokenId>(i), logits[i]});
  SortByLogit(choices);
  if (params.sampling.top_k > 0)
    choices.resize(std::min(choices.size(), static_cast<std::size_t>(params.sampling.top_k)));
  if (params.sampling.typical_p < 1) NaiveTypical(choices, params.sampling.typical_p);
  SortByLogit(choices);
  if (params.sampling.top_p < 1) CutAtShare(choices, Softmax(choices), params.sampling.top_p);
  const double likeliest = choices.front().logit;
  if (params.sampling.min_p > 0)
    std::erase_if(choices, [&](const Choice& choice) {
      return choice.logit - likeliest < std::log(params.sampling.min_p);
    });
  for (Choice& choice : choices) choice.logit /= params.sampling.temperature;
  const std::vector<double> shares = Softmax(choices);
  std::map<TokenId, double> distribution;
  for (std::size_t i = 0; i < choices.size(); ++i) distribution[choices[i].token] = shares[i];
  return distribution;
}

void ExpectDraws(const SamplerOptions& params, const std::vector<float>& logits) {
  constexpr int kDraws = 4000;
  const std::map<TokenId, double> expected = NaiveDistribution(params, logits);
  Sampler sampler = Make(params, logits.size());
  std::map<TokenId, int> drawn;
  for (int i = 0; i < kDraws; ++i) ++drawn[sampler.Sample(logits)->token];
  for (const auto& [token, count] : drawn)
    EXPECT_TRUE(expected.contains(token)) << "token " << token << " drawn " << count << " times";
  for (const auto& [token, share] : expected) {
    const double deviation = std::sqrt(share * (1 - share) * kDraws);
    EXPECT_NEAR(drawn[token], share * kDraws, 5.5 * deviation + 2) << "token " << token;
  }
}

TEST(SamplerModelTest, EveryCutKeepsWhatTheNaiveModelKeeps) {
  std::mt19937 random(20240917);
  const auto one_of = [&](std::initializer_list<float> values) {
    return values.begin()[random() % values.size()];
  };
  for (int round = 0; round < test::Scaled(120, 24); ++round) {
    SamplerOptions params;
    params.sampling.temperature = one_of({0.3f, 0.8f, 1.0f, 1.7f});
    params.sampling.top_k = static_cast<std::int32_t>(one_of({0, 0, 1, 5, 40, 1000}));
    params.sampling.typical_p = one_of({1.0f, 1.0f, 0.3f, 0.9f});
    params.sampling.top_p = one_of({1.0f, 0.95f, 0.5f, 0.05f});
    params.sampling.min_p = one_of({0.0f, 0.0f, 0.02f, 0.4f, 1.0f});
    params.seed = random();
    const std::size_t vocab_size = 1 + random() % 400;
    SCOPED_TRACE("round " + std::to_string(round) + ", vocabulary " + std::to_string(vocab_size));
    ExpectDraws(params, RandomLogits(random, vocab_size, one_of({0.5f, 2.0f, 6.0f})));
  }
}

// ---- greedy

TEST(SamplerTest, GreedyTakesTheMostLikelyToken) {
  EXPECT_EQ(SampleOne(Greedy(), {0.5f, -1.0f, 3.0f, 2.9f}), 2);
}

TEST(SamplerTest, GreedyTakesTheLowestIdOfEquals) {
  EXPECT_EQ(SampleOne(Greedy(), {0.0f, 7.0f, 7.0f, 7.0f, -kInfinity}), 1);
}

TEST(SamplerTest, GreedyIgnoresTruncation) {
  SamplerOptions params = Greedy();
  // without greedy sampling, typical_p = 0.1 would drop the most likely token of the row
  params.sampling.typical_p = 0.1f;
  EXPECT_EQ(SampleOne(params, {2.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f}), 0);
}

TEST(SamplerTest, GreedyDrawsNothingFromTheGenerator) {
  Sampler sampler = Make(Greedy(), 2);
  ASSERT_TRUE(sampler.Sample(std::vector{1.0f, 2.0f}));
  EXPECT_EQ(sampler.state().draw_count, 0u);
}

// ---- draws and seeds

TEST(SamplerTest, SeedGivesTheSameTokensOnEveryMachine) {
  SamplerOptions params;
  params.seed = 42;
  Sampler sampler = Make(params, 1000);
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 7919) % 1000) / 125.0f;
  std::vector<TokenId> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(sampler.Sample(logits)->token);
  EXPECT_THAT(tokens, ElementsAre(741, 164, 284, 338, 39, 871, 223, 804));
  EXPECT_EQ(sampler.state().draw_count, 8u);
}

TEST(SamplerTest, DifferentSeedsDiffer) {
  const std::vector<float> flat(100'000, 0.0f);
  SamplerOptions first;
  first.seed = 1;
  SamplerOptions second;
  second.seed = 2;
  EXPECT_NE(SampleOne(first, flat), SampleOne(second, flat));
}

TEST(SamplerTest, ATemperatureCloseToZeroIsGreedy) {
  SamplerOptions params;
  params.sampling.temperature = std::numeric_limits<float>::denorm_min();
  for (params.seed = 0; params.seed < 50; ++params.seed)
    EXPECT_EQ(SampleOne(params, {-3.0e38f, 1.0f, 1.001f, -kInfinity, 3.0e-38f}), 2);
}

TEST(SamplerTest, AnInfiniteTemperatureIsUniform) {
  SamplerOptions params;
  params.sampling.temperature = std::numeric_limits<float>::max();
  ExpectDraws(params, {40.0f, 0.0f, -40.0f, 3.0f});
}

TEST(SamplerTest, MinusInfinityIsNeverDrawn) {
  SamplerOptions params;
  for (params.seed = 0; params.seed < 200; ++params.seed)
    EXPECT_EQ(SampleOne(params, {-kInfinity, 0.0f, -kInfinity}), 1);
}

TEST(SamplerTest, TopKAboveTheVocabularyKeepsAllOfIt) {
  SamplerOptions params;
  params.sampling.top_k = std::numeric_limits<std::int32_t>::max();
  ExpectDraws(params, {1.0f, 0.0f, 2.0f});
}

TEST(SamplerTest, TopKKeepsTheLowestIdsOfEquals) {
  SamplerOptions params;
  params.sampling.top_k = 2;
  for (params.seed = 0; params.seed < 100; ++params.seed)
    EXPECT_LT(SampleOne(params, std::vector<float>(300, 1.5f)), 2);
}

// ---- biases, penalties

TEST(SamplerTest, BiasesChangeAndForbidTokens) {
  SamplerOptions params = Greedy();
  params.biases = {{2, 1.5f}};
  EXPECT_EQ(SampleOne(params, {1.0f, 0.0f, 0.0f}), 2);
  params.biases = {{2, 1.5f}, {2, -1.0f}};  // biases of one token are added
  EXPECT_EQ(SampleOne(params, {1.0f, 0.0f, 0.0f}), 0);
  params.biases = {{0, -kInfinity}, {0, 1000.0f}};
  EXPECT_EQ(SampleOne(params, {1.0f, 0.5f, 0.0f}), 1);
}

TEST(SamplerTest, IgnoreEosForbidsEveryEndToken) {
  const std::vector<TokenId> end_tokens = {0, 2};
  const std::vector<float> logits = {5.0f, 1.0f, 4.0f};
  SamplerOptions params = Greedy();
  EXPECT_EQ(Make(params, 3, end_tokens).Sample(logits)->token, 0);
  params.ignore_eos = true;
  EXPECT_EQ(Make(params, 3, end_tokens).Sample(logits)->token, 1);
}

TEST(SamplerTest, RepeatPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplerOptions params = Greedy();
  params.sampling.repeat_last = 8;
  params.sampling.repeat_penalty = 2.0f;
  Sampler positive = Make(params, 2);
  positive.Accept(0);
  EXPECT_EQ(positive.Sample(std::vector{3.0f, 1.6f})->token, 1);  // 3.0 / 2 < 1.6
  EXPECT_EQ(positive.Sample(std::vector{3.0f, 1.4f})->token, 0);
  EXPECT_EQ(positive.Sample(std::vector{-1.0f, -1.9f})->token, 1);  // -1.0 * 2 < -1.9
  EXPECT_EQ(positive.Sample(std::vector{-1.0f, -2.1f})->token, 0);
}

TEST(SamplerTest, PresenceCountsOnceAndFrequencyEachTime) {
  SamplerOptions params = Greedy();
  params.sampling.repeat_last = -1;
  params.sampling.presence_penalty = 1.0f;
  params.sampling.frequency_penalty = 0.5f;
  Sampler sampler = Make(params, 2);
  for (int i = 0; i < 3; ++i) sampler.Accept(0);  // lowers the logit by 1 + 3 * 0.5
  EXPECT_EQ(sampler.Sample(std::vector{2.4f, 0.0f})->token, 1);
  EXPECT_EQ(sampler.Sample(std::vector{2.6f, 0.0f})->token, 0);
}

TEST(SamplerTest, PenaltiesForgetWhatIsOlderThanRepeatLast) {
  SamplerOptions params = Greedy();
  params.sampling.repeat_last = 3;
  params.sampling.presence_penalty = 2.0f;
  Sampler sampler = Make(params, 8);
  std::vector<float> logits(8, -10.0f);
  logits[0] = 1.0f;
  logits[1] = 0.0f;
  for (const TokenId token : {0, 5, 6}) sampler.Accept(token);
  EXPECT_EQ(sampler.Sample(logits)->token, 1);
  sampler.Accept(7);
  EXPECT_EQ(sampler.Sample(logits)->token, 0);
  EXPECT_EQ(sampler.state().history.size(), 3u);
}

TEST(SamplerTest, HistoryIsKeptOnlyForPenalties) {
  SamplerOptions params;
  params.sampling.repeat_last = -1;
  Sampler sampler = Make(params, 4);
  sampler.Accept(1);
  EXPECT_TRUE(sampler.state().history.empty());
}

TEST(SamplerTest, AnOverflowingPenaltyStillAllowsADraw) {
  SamplerOptions params;
  params.sampling.repeat_last = -1;
  params.sampling.repeat_penalty = std::numeric_limits<float>::min();
  Sampler sampler = Make(params, 3);
  sampler.Accept(0);
  EXPECT_EQ(sampler.Sample(std::vector{3.0e30f, 1.0f, 2.0f})->token, 0);
}

// ---- logprobs

TEST(SamplerTest, LogprobsAreOfTheModelsOwnDistribution) {
  std::mt19937 random(7);
  const std::vector<float> logits = RandomLogits(random, 5003, 4.0f);
  SamplerOptions params;
  params.sampling.temperature = 0.2f;
  params.sampling.top_k = 3;
  params.sampling.repeat_last = -1;
  params.sampling.presence_penalty = 2.0f;
  params.biases = {{17, 12.0f}};
  params.logprob_count = 64;
  Sampler sampler = Make(params, logits.size());
  sampler.Accept(4);
  const SampledToken sampled = *sampler.Sample(logits);

  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  const auto logprob = [&](TokenId token) {
    return logits[static_cast<std::size_t>(token)] - std::log(total);
  };
  EXPECT_NEAR(sampled.logprob, logprob(sampled.token), 2e-5);
  ASSERT_EQ(sampler.top_logprobs().size(), 64u);
  std::vector<std::pair<float, TokenId>> order;
  for (std::size_t i = 0; i < logits.size(); ++i)
    order.emplace_back(-logits[i], static_cast<TokenId>(i));
  std::ranges::sort(order);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(sampler.top_logprobs()[i].token, order[i].second);
    EXPECT_NEAR(sampler.top_logprobs()[i].logprob, logprob(order[i].second), 2e-5);
  }
}

TEST(SamplerTest, LogprobsAreAsManyAsTheVocabularyHas) {
  SamplerOptions params;
  params.logprob_count = 5;
  Sampler sampler = Make(params, 2);
  ASSERT_TRUE(sampler.Sample(std::vector{0.0f, 0.0f}));
  ASSERT_EQ(sampler.top_logprobs().size(), 2u);
  EXPECT_NEAR(sampler.top_logprobs()[1].logprob, -std::log(2.0), 1e-6);
}

TEST(SamplerTest, LogprobsAreExactForLogitsFarFromZero) {
  SamplerOptions params = Greedy();
  params.logprob_count = 2;
  Sampler sampler = Make(params, 3);
  const SampledToken sampled = *sampler.Sample(std::vector{20000.0f, 20001.0f, -20000.0f});
  EXPECT_NEAR(sampled.logprob, -std::log1p(std::exp(-1.0)), 1e-5);
}

// ---- rows

TEST(SamplerTest, RowsThatAreNotFiniteAreRefusedAndDrawNothing) {
  Sampler sampler = Make({}, 9);
  for (const float bad : {kNan, kInfinity}) {
    for (std::size_t at = 0; at < 9; ++at) {
      std::vector<float> logits(9, 1.0f);
      logits[at] = bad;
      const auto sampled = sampler.Sample(logits);
      ASSERT_FALSE(sampled);
      EXPECT_EQ(sampled.error().code, Code::kNumerical);
    }
  }
  EXPECT_FALSE(sampler.Sample(std::vector<float>(9, -kInfinity)));
  EXPECT_EQ(sampler.state().draw_count, 0u);
}

TEST(SamplerTest, RowWhoseOnlyFiniteTokenIsForbiddenIsRefused) {
  SamplerOptions params;
  params.biases = {{1, -kInfinity}};
  Sampler sampler = Make(params, 3);
  const auto sampled = sampler.Sample(std::vector{-kInfinity, 1.0f, -kInfinity});
  ASSERT_FALSE(sampled);
  EXPECT_EQ(sampled.error().code, Code::kNumerical);
}

TEST(SamplerTest, NothingIsAllocatedPerToken) {
  std::mt19937 random(3);
  const std::vector<float> logits = RandomLogits(random, 32'000, 3.0f);
  SamplerOptions params;
  params.sampling.top_k = 0;
  params.sampling.typical_p = 0.97f;
  params.sampling.top_p = 0.98f;
  params.sampling.min_p = 0.0001f;
  params.sampling.repeat_last = 64;
  params.sampling.repeat_penalty = 1.1f;
  params.logprob_count = 10;
  params.biases = {{5, 1.0f}};
  Sampler sampler = Make(params, logits.size());
  for (int i = 0; i < 100; ++i) sampler.Accept(sampler.Sample(logits)->token);
  const std::size_t before = AllocationCount();
  for (int i = 0; i < 100; ++i) sampler.Accept(sampler.Sample(logits)->token);
  EXPECT_EQ(AllocationCount() - before, 0u);
}

// ---- validation

void ExpectRefused(const SamplerOptions& params, const std::string& message) {
  const Status status = ValidateSampler(params, 100);
  ASSERT_FALSE(status) << message;
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr(message));
  EXPECT_FALSE(Sampler::Create(params, 100, {}));
}

TEST(SamplerOptionsTest, SamplingAndTheNumberOfLogprobsAreRefusedByName) {
  SamplerOptions params;
  params.sampling.top_k = -1;
  ExpectRefused(params, "top_k: -1 given, must be at least 0");
  params = {};
  params.logprob_count = 65;
  ExpectRefused(params, "logprob_count: 65 given, must be at most 64");
}

TEST(SamplerOptionsTest, BiasesAreRefusedByTokenAndNumber) {
  SamplerOptions params;
  params.biases = {{100, 0.0f}};
  ExpectRefused(params, "generate.bias: token 100, the vocabulary has 100");
  params.biases = {{-1, 0.0f}};
  ExpectRefused(params, "generate.bias: token -1");
  for (const float bias : {1000.5f, -1000.5f, kInfinity, kNan}) {
    params.biases = {{3, 1.0f}, {7, bias}};
    ExpectRefused(params, "generate.bias: ");
  }
  params.biases.assign(wire::kBiasesMax + 1, {3, 1.0f});
  ExpectRefused(params, "logit biases: 1025 given, must be at most 1024");
}

TEST(SamplerOptionsTest, LimitsThemselvesAreAllowed) {
  SamplerOptions params;
  params.sampling.temperature = 0.0f;
  params.sampling.top_p = params.sampling.typical_p = params.sampling.min_p = 1.0f;
  params.sampling.presence_penalty = -2.0f;
  params.sampling.frequency_penalty = 2.0f;
  params.sampling.repeat_last = -1;
  params.logprob_count = wire::kLogprobsMax;
  params.biases.assign(wire::kBiasesMax, {99, -1000.0f});
  params.biases[0].bias = -kInfinity;
  EXPECT_TRUE(ValidateSampler(params, 100));
}

TEST(SamplerOptionsTest, ForbiddingEveryTokenIsRefused) {
  SamplerOptions params;
  params.ignore_eos = true;
  params.biases = {{0, -kInfinity}, {1, -kInfinity}, {0, -kInfinity}};
  const std::vector<TokenId> end_tokens = {2};
  const auto sampler = Sampler::Create(params, 3, end_tokens);
  ASSERT_FALSE(sampler);
  EXPECT_THAT(sampler.error().message, HasSubstr("all 3 tokens are forbidden"));
  EXPECT_TRUE(Sampler::Create(params, 4, end_tokens));
}

TEST(SamplerOptionsTest, EndTokenOutsideTheVocabularyIsRefused) {
  SamplerOptions params;
  params.ignore_eos = true;
  const std::vector<TokenId> end_tokens = {2, 7};
  const auto sampler = Sampler::Create(params, 7, end_tokens);
  ASSERT_FALSE(sampler);
  EXPECT_THAT(sampler.error().message, HasSubstr("end token: 7 given, must be in [0, 7)"));
}

}  // namespace
}  // namespace kvd::sampler_test
