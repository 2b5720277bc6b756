#include "engine/sampling/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/sampling/sampler.h"

namespace kvd::allowed_tokens_test {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kVocabSize = 300;

Sampler Make(const SamplerOptions& options) {
  auto sampler = Sampler::Create(options, kVocabSize, std::vector<TokenId>{7, 250});
  EXPECT_TRUE(sampler.has_value()) << sampler.error().message;
  return std::move(*sampler);
}

std::vector<float> Row(std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(kVocabSize);
  for (float& logit : logits) logit = random() % 20 == 0 ? -kInfinity : normal(random);
  return logits;
}

struct Set {
  std::vector<TokenId> list;
  std::vector<std::uint64_t> bits = std::vector<std::uint64_t>((kVocabSize + 63) / 64);
  void Add(TokenId token) {
    list.push_back(token);
    bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }
  AllowedTokens AsList() const { return {.list = list, .bits = {}}; }
  AllowedTokens AsBits() const { return {.list = {}, .bits = bits}; }
};

Set RandomSet(std::mt19937& random, int one_in) {
  Set set;
  for (TokenId token = 0; token < static_cast<TokenId>(kVocabSize); ++token)
    if (random() % static_cast<unsigned>(one_in) == 0) set.Add(token);
  if (set.list.empty()) set.Add(42);
  return set;
}

// The row in which the tokens outside the set have the logit -infinity.
std::vector<float> Masked(const std::vector<float>& row, const Set& set) {
  std::vector<float> masked(row.size(), -kInfinity);
  for (const TokenId token : set.list)
    masked[static_cast<std::size_t>(token)] = row[static_cast<std::size_t>(token)];
  return masked;
}

std::vector<SamplerOptions> ManyOptions() {
  std::vector<SamplerOptions> all(8);
  for (SamplerOptions& options : all) options.seed = 11;
  all[1].sampling.temperature = 0;
  all[2].sampling = kDefaultSampling;
  all[3].sampling = kDefaultSampling;
  all[3].sampling.repeat_penalty = 1.3f;
  all[3].sampling.dry_multiplier = 0.8f;
  all[3].biases = {{.token = 42, .bias = 2.0f}, {.token = 43, .bias = -kInfinity}};
  all[3].ignore_eos = true;
  all[4].sampling.temperature = 0;
  all[4].sampling.presence_penalty = 1.5f;
  all[4].biases = {{.token = 5, .bias = 3.0f}, {.token = 5, .bias = 1.0f}};
  all[5].sampling.mirostat = 2;
  all[6].sampling.mirostat = 1;
  all[7].sampling = kDefaultSampling;
  all[7].sampling.xtc_probability = 0.5f;
  all[7].sampling.typical_p = 0.8f;
  all[7].ignore_eos = true;
  return all;
}

TEST(AllowedTokensTest, ListsAndBitsDrawTheTokenOfAMaskedRow) {
  std::mt19937 random(3);
  for (const SamplerOptions& options : ManyOptions()) {
    Sampler by_list = Make(options);
    Sampler by_bits = Make(options);
    Sampler by_row = Make(options);
    for (int round = 0; round < 200; ++round) {
      const std::vector<float> row = Row(random);
      const Set set = RandomSet(random, round % 2 == 0 ? 40 : 2);
      const std::vector<float> masked = Masked(row, set);
      const AllowedTokens list = set.AsList();
      const AllowedTokens bits = set.AsBits();
      const auto expected = by_row.Sample(masked);
      const auto first = by_list.Sample(row, &list);
      const auto second = by_bits.Sample(row, &bits);
      ASSERT_EQ(first.has_value(), expected.has_value());
      ASSERT_EQ(second.has_value(), expected.has_value());
      ASSERT_EQ(by_list.state().draw_count, by_row.state().draw_count);
      ASSERT_EQ(by_bits.state().draw_count, by_row.state().draw_count);
      if (!expected) continue;
      ASSERT_EQ(first->token, expected->token);
      ASSERT_EQ(second->token, expected->token);
      for (Sampler* sampler : {&by_list, &by_bits, &by_row}) sampler->Accept(expected->token);
      const auto shares = by_row.NextShares(masked);
      const auto list_shares = by_list.NextShares(row, &list);
      ASSERT_EQ(list_shares->size(), shares->size());
      for (std::size_t i = 0; i < shares->size(); ++i) {
        EXPECT_EQ((*list_shares)[i].token, (*shares)[i].token);
        EXPECT_DOUBLE_EQ((*list_shares)[i].share, (*shares)[i].share);
      }
    }
  }
}

TEST(AllowedTokensTest, AdoptingATokenAdaptsLikeDrawingIt) {
  std::mt19937 random(4);
  SamplerOptions options;
  options.seed = 5;
  options.sampling.mirostat = 2;
  for (const bool is_list : {false, true}) {
    Sampler draws = Make(options);
    Sampler adopts = Make(options);
    for (int round = 0; round < 50; ++round) {
      const std::vector<float> row = Row(random);
      const Set set = RandomSet(random, 10);
      const AllowedTokens allowed = is_list ? set.AsList() : set.AsBits();
      const auto drawn = draws.Sample(row, &allowed);
      ASSERT_TRUE(drawn.has_value());
      ASSERT_TRUE(adopts.Adopt(row, drawn->token, &allowed).has_value());
      EXPECT_EQ(adopts.state().draw_count, draws.state().draw_count);
      EXPECT_FLOAT_EQ(adopts.state().adaptation.mirostat_mu, draws.state().adaptation.mirostat_mu);
    }
  }
}

TEST(AllowedTokensTest, LogprobsStayThoseOfTheWholeRow) {
  std::mt19937 random(5);
  const std::vector<float> row = Row(random);
  SamplerOptions options;
  options.logprob_count = 5;
  options.sampling.temperature = 0;
  Sampler free = Make(options);
  ASSERT_TRUE(free.Sample(row).has_value());
  Set set;
  set.Add(20);
  for (const AllowedTokens& allowed : {set.AsList(), set.AsBits()}) {
    Sampler bound = Make(options);
    const auto drawn = bound.Sample(row, &allowed);
    ASSERT_TRUE(drawn.has_value());
    EXPECT_EQ(drawn->token, 20);
    ASSERT_EQ(bound.top_logprobs().size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(bound.top_logprobs()[i].token, free.top_logprobs()[i].token);
      EXPECT_EQ(bound.top_logprobs()[i].logprob, free.top_logprobs()[i].logprob);
    }
    EXPECT_FLOAT_EQ(drawn->logprob - row[20],
                    free.top_logprobs()[0].logprob -
                        row[static_cast<std::size_t>(free.top_logprobs()[0].token)]);
  }
}

TEST(AllowedTokensTest, ASetWithoutAFiniteLogitIsNotFound) {
  std::vector<float> row(kVocabSize, 1.0f);
  row[20] = -kInfinity;
  Set set;
  set.Add(7);
  set.Add(20);
  SamplerOptions options;
  options.ignore_eos = true;
  const Set none;
  const AllowedTokens empty{};
  for (const AllowedTokens& allowed : {set.AsList(), set.AsBits(), none.AsBits(), empty}) {
    Sampler sampler = Make(options);
    const auto drawn = sampler.Sample(row, &allowed);
    ASSERT_FALSE(drawn.has_value());
    EXPECT_EQ(drawn.error().code, Code::kNotFound);
    EXPECT_THAT(drawn.error().message, HasSubstr("no token of the allowed set"));
    EXPECT_EQ(sampler.state().draw_count, 0u);
    EXPECT_EQ(sampler.NextShares(row, &allowed).error().code, Code::kNotFound);
  }
}

TEST(AllowedTokensTest, NanAmongTheAllowedTokensIsNumerical) {
  std::vector<float> row(kVocabSize, 1.0f);
  Set set;
  set.Add(3);
  set.Add(100);
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    row[100] = wrong;
    for (const AllowedTokens& allowed : {set.AsList(), set.AsBits()}) {
      Sampler sampler = Make({});
      EXPECT_EQ(sampler.Sample(row, &allowed).error().code, Code::kNumerical);
      EXPECT_EQ(sampler.Adopt(row, 3, &allowed).error().code, Code::kNumerical);
      EXPECT_EQ(sampler.state().draw_count, 0u);
    }
  }
}

}  // namespace
}  // namespace kvd::allowed_tokens_test
