// Tests the Sampler's chain: which samplers have an effect, in which order, and the state that they
// keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "tests/support/allocation_counter.h"

namespace kvd::sampler_chain_order_test {
namespace {

using ::testing::HasSubstr;

std::vector<float> Wave(std::size_t count) {
  std::vector<float> logits(count);
  for (std::size_t i = 0; i < count; ++i) logits[i] = 3 * std::sin(static_cast<float>(i * i));
  return logits;
}

Sampler Make(const SamplingParams& params, std::size_t vocab_size, std::uint64_t seed = 7) {
  auto sampler = Sampler::Create({.sampling = params, .seed = seed, .biases = {}},
                                 static_cast<std::uint32_t>(vocab_size), {});
  EXPECT_TRUE(sampler) << sampler.error().message;
  return std::move(*sampler);
}

SamplingParams InOrder(const std::string& letters, SamplingParams params) {
  params.chain = *ParseSamplerLetters(letters);
  return params;
}

std::map<TokenId, double> Shares(const Sampler& sampler, const std::vector<float>& logits) {
  std::map<TokenId, double> shares;
  const auto found = sampler.NextShares(logits);
  EXPECT_TRUE(found) << found.error().message;
  for (const TokenShare& share : *found) shares[share.token] = share.share;
  return shares;
}

TEST(SamplerChainOrderTest, ASamplerThatTheChainLacksIsOff) {
  const std::vector<float> logits = Wave(50);
  SamplingParams params = kDefaultSampling;
  params.presence_penalty = 2;
  params.xtc_probability = 1;
  const Sampler none = Make(InOrder("", params), 50);
  EXPECT_EQ(Shares(none, logits), Shares(Make(kPlainSampling, 50), logits));
  params.top_k = 3;
  EXPECT_EQ(Shares(Make(InOrder("k", params), 50), logits).size(), 3u);
  EXPECT_EQ(Shares(Make(InOrder("t", params), 50), logits).size(), 50u);
}

TEST(SamplerChainOrderTest, TheOrderOfSamplersChangesTheCandidates) {
  SamplingParams params = kPlainSampling;
  params.top_k = 2;
  params.presence_penalty = 2;
  params.repeat_last = 8;
  const std::vector<float> logits = {3.0f, 2.5f, 2.0f, 0.0f};
  const auto kept = [&](const std::string& letters) {
    Sampler sampler = Make(InOrder(letters, params), 4);
    sampler.Accept(0);
    return Shares(sampler, logits);
  };
  EXPECT_FALSE(kept("ek").contains(0)) << "the penalty comes first";
  EXPECT_TRUE(kept("ke").contains(0));
  EXPECT_LT(kept("ke").at(0), kept("ke").at(1)) << "candidates are penalised too";
}

TEST(SamplerChainOrderTest, ATemperatureInTheMiddleIsFollowedByScaledLogits) {
  SamplingParams params = kPlainSampling;
  params.temperature = 0.5f;
  params.min_p = 0.2f;
  const std::vector<float> logits = {1.0f, 0.0f};  // shares 1 : e^-1, or 1 : e^-2 after temperature
  EXPECT_EQ(Shares(Make(InOrder("mt", params), 2), logits).size(), 2u);
  EXPECT_EQ(Shares(Make(InOrder("tm", params), 2), logits).size(), 1u);
}

TEST(SamplerChainOrderTest, TheDefaultOrderDrawsAsItDidWithoutAChain) {
  SamplingParams params = kDefaultSampling;
  Sampler sampler = Make(params, 1000, 42);
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 7919) % 1000) / 125.0f;
  }
  // Samplers that are on but change nothing change no draw either.
  params.top_n_sigma = 1e6f;
  params.dry_multiplier = 1;
  params.dynatemp_range = 0;
  Sampler other = Make(params, 1000, 42);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(sampler.Sample(logits)->token, other.Sample(logits)->token) << i;
  }
}

TEST(SamplerChainOrderTest, GreedyAppliesPenaltiesAndDryBeforeTheTemperature) {
  SamplingParams params = DefaultSamplingAt(0);
  params.presence_penalty = 2;
  const std::vector<float> logits = {1.0f, 0.5f};
  const auto drawn = [&](const std::string& letters) {
    Sampler sampler = Make(InOrder(letters, params), 2);
    sampler.Accept(0);
    const TokenId token = sampler.Sample(logits)->token;
    EXPECT_EQ(sampler.state().draw_count, 0u);
    return token;
  };
  EXPECT_EQ(drawn("et"), 1);
  EXPECT_EQ(drawn("te"), 0);
  params.presence_penalty = 0;
  params.dry_multiplier = 5;
  params.dry_allowed_length = 0;
  Sampler sampler = Make(params, 2);
  for (const TokenId token : {0, 1}) sampler.Accept(token);
  EXPECT_EQ(sampler.Sample(std::vector{1.0f, 1.5f})->token, 0) << "1 has followed 0";
}

TEST(SamplerChainOrderTest, PenaltiesAndDryHaveTheirOwnWindows) {
  SamplingParams params = kPlainSampling;
  params.presence_penalty = 2;
  params.repeat_last = 2;
  params.dry_multiplier = 2;
  params.dry_base = 1;
  params.dry_allowed_length = 1;
  params.dry_penalty_last = 5;
  Sampler sampler = Make(params, 8);
  for (const TokenId token : {6, 1, 2, 3, 4, 1}) sampler.Accept(token);
  EXPECT_EQ(sampler.state().history.size(), 5u);
  const auto shares = Shares(sampler, std::vector<float>(8, 0.0f));
  const double plain = shares.at(7);
  const double penalised = plain * std::exp(-2.0);
  EXPECT_NEAR(shares.at(0), plain, 1e-9);
  EXPECT_NEAR(shares.at(6), plain, 1e-9) << "older than both windows";
  EXPECT_NEAR(shares.at(3), plain, 1e-9) << "older than the window of penalties";
  EXPECT_NEAR(shares.at(4), penalised, 1e-6);
  EXPECT_NEAR(shares.at(1), penalised, 1e-6);
  EXPECT_NEAR(shares.at(2), penalised, 1e-6) << "DRY: 1 was followed by 2";
}

TEST(SamplerChainOrderTest, BreakersAreTokenSequences) {
  SamplingParams params = kPlainSampling;
  params.dry_multiplier = 2;
  params.dry_allowed_length = 2;
  const auto share_of_3 = [&](bool has_breaker) {
    Sampler sampler = Make(params, 5);
    if (has_breaker) {
      sampler.SetBreakers(std::make_shared<const DryBreakers>(std::vector<bool>{false, false, true},
                                                              std::vector<DryBreakers::Head>(),
                                                              std::vector<std::vector<TokenId>>()));
    }
    for (const TokenId token : {1, 2, 3, 1, 2}) sampler.Accept(token);
    return Shares(sampler, std::vector<float>(5, 0.0f)).at(3);
  };
  EXPECT_LT(share_of_3(false), 0.1);
  EXPECT_NEAR(share_of_3(true), 0.2, 1e-6);
}

TEST(SamplerChainOrderTest, XtcChangesNoOtherDraw) {
  const std::vector<float> logits = Wave(100);
  SamplingParams params = kPlainSampling;
  Sampler plain = Make(params, 100);
  params.xtc_probability = 0.3f;
  params.xtc_threshold = 0.02f;
  Sampler sampler = Make(params, 100);
  int equal = 0;
  for (int i = 0; i < 1000; ++i)
    equal += sampler.Sample(logits)->token == plain.Sample(logits)->token;
  EXPECT_EQ(sampler.state().draw_count, 1000u);
  EXPECT_GE(equal, 600);
  EXPECT_LE(equal, 950);
}

// ---- mirostat and adaptive-p

SamplingParams Mirostat(std::int32_t version) {
  SamplingParams params = kDefaultSampling;
  params.mirostat = version;
  params.mirostat_tau = 3;
  params.mirostat_eta = 0.3f;
  return params;
}
SamplingParams AdaptiveP() {
  SamplingParams params = kDefaultSampling;
  params.adaptive_target = 0.3f;
  params.chain = *ParseSamplerNames("adaptive_p;top_k;temperature");
  return params;
}

TEST(SamplerAdaptationTest, MirostatReplacesTheChain) {
  const std::vector<float> logits = Wave(300);
  SamplingParams params = Mirostat(2);
  params.top_k = 1;
  params.presence_penalty = 2;
  params.repeat_last = -1;
  Sampler sampler = Make(params, 300);
  sampler.Accept(5);
  EXPECT_TRUE(sampler.state().history.empty());
  EXPECT_GT(Shares(sampler, logits).size(), 1u);
}

TEST(SamplerAdaptationTest, TheMeanSurpriseApproachesTheTarget) {
  const std::vector<float> logits = Wave(300);
  for (const std::int32_t version : {1, 2}) {
    Sampler sampler = Make(Mirostat(version), 300);
    double surprise = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto shares = Shares(sampler, logits);
      surprise -= std::log2(shares.at(sampler.Sample(logits)->token)) / 2000;
    }
    EXPECT_NEAR(surprise, 3, 0.1) << version;
  }
}

TEST(SamplerAdaptationTest, ASamplerWithTheStateOfAnotherDrawsTheSameTokens) {
  const std::vector<float> logits = Wave(300);
  for (const SamplingParams& params : {Mirostat(1), Mirostat(2), AdaptiveP()}) {
    Sampler whole = Make(params, 300);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(whole.Sample(logits));
    EXPECT_NE(whole.state().adaptation, InitialAdaptation(params));
    EXPECT_TRUE(ValidateAdaptation(whole.state().adaptation));
    Sampler second = Make(params, 300);
    second.SkipDraws(whole.state().draw_count);
    second.SetAdaptation(whole.state().adaptation, whole.state().adaptation_before);
    // A third one adopts the tokens that the others draw.
    Sampler third = second;
    for (int i = 0; i < 100; ++i) {
      const TokenId token = whole.Sample(logits)->token;
      EXPECT_EQ(second.Sample(logits)->token, token) << i;
      ASSERT_TRUE(third.Adopt(logits, token));
      EXPECT_EQ(third.state().draw_count, whole.state().draw_count);
      EXPECT_NEAR(third.state().adaptation.mirostat_mu, whole.state().adaptation.mirostat_mu, 1e-4);
      EXPECT_NEAR(third.state().adaptation.adaptive_sum, whole.state().adaptation.adaptive_sum,
                  1e-4);
    }
  }
}

TEST(SamplerAdaptationTest, AdoptingATokenThatCannotBeDrawnAdaptsNothing) {
  std::vector<float> logits = Wave(300);
  logits[4] = -std::numeric_limits<float>::infinity();
  Sampler sampler = Make(Mirostat(2), 300);
  const SamplerAdaptation before = sampler.state().adaptation;
  ASSERT_TRUE(sampler.Adopt(logits, 4));
  EXPECT_EQ(sampler.state().adaptation, before);
  EXPECT_EQ(sampler.state().draw_count, 1u);
  logits[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sampler.Adopt(logits, 5).error().code, Code::kNumerical);
  logits.assign(300, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(sampler.Adopt(logits, 5).error().code, Code::kNumerical);
  Sampler plain = Make(kPlainSampling, 300);
  ASSERT_TRUE(plain.Adopt(Wave(300), 5));
  EXPECT_EQ(plain.state().draw_count, 1u);
}

TEST(SamplerAdaptationTest, ANegativeTargetIsAPlainDraw) {
  const std::vector<float> logits = Wave(300);
  SamplingParams params = AdaptiveP();
  params.adaptive_target = -1;
  Sampler sampler = Make(params, 300);
  params.chain = *ParseSamplerNames("top_k;temperature");
  Sampler plain = Make(params, 300);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.Sample(logits)->token, plain.Sample(logits)->token);
  }
}

TEST(SamplerAdaptationTest, NoSamplerAllocatesPerToken) {
  const std::vector<float> logits = Wave(20'000);
  SamplingParams all = kDefaultSampling;
  all.top_n_sigma = 2;
  all.xtc_probability = 0.5f;
  all.dry_multiplier = 1;
  all.dry_allowed_length = 0;
  all.presence_penalty = 1;
  all.dynatemp_range = 0.5f;
  for (const SamplingParams& params :
       {all, InOrder("tsxkpmyed", all), Mirostat(1), Mirostat(2), AdaptiveP()}) {
    Sampler sampler = Make(params, logits.size());
    for (int i = 0; i < 100; ++i) sampler.Accept(sampler.Sample(logits)->token);
    const std::size_t before = AllocationCount();
    for (int i = 0; i < 50; ++i) sampler.Accept(sampler.Sample(logits)->token);
    EXPECT_EQ(AllocationCount() - before, 0u);
  }
}

TEST(SamplerAdaptationTest, ExtremeParametersDrawATokenOrReportAnError) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> rows = {{kMax, -kMax, 0},
                                                {0, 0, 0},
                                                {1e-38f, 0, -1e-38f},
                                                {5, -std::numeric_limits<float>::infinity(), 1}};
  for (const float extreme : {0.0f, 1e-38f, 1.0f, kMax}) {
    SamplingParams params = kPlainSampling;
    params.temperature = params.dynatemp_range = params.dynatemp_exponent = extreme;
    params.top_n_sigma = params.dry_multiplier = extreme;
    params.dry_base = std::max(1.0f, extreme);
    params.dry_allowed_length = 0;
    params.xtc_probability = 1;
    params.xtc_threshold = 0;
    params.repeat_penalty = std::max(1e-38f, extreme);
    params.repeat_last = params.dry_penalty_last = -1;
    params.mirostat_tau = params.mirostat_eta = std::min(extreme, 1000.0f);
    params.adaptive_target = std::min(extreme, 1.0f);
    for (const char* letters : {"edskypmxt", "taedskx", "txkpe", ""}) {
      for (params.mirostat = 0; params.mirostat <= 2; ++params.mirostat) {
        Sampler sampler = Make(InOrder(letters, params), 3);
        for (const std::vector<float>& row : rows) {
          for (int i = 0; i < 20; ++i) {
            const auto drawn = sampler.Sample(row);
            ASSERT_TRUE(drawn) << letters << ": " << drawn.error().message;
            sampler.Accept(drawn->token);
          }
        }
        EXPECT_TRUE(ValidateAdaptation(sampler.state().adaptation)) << letters << extreme;
      }
    }
  }
}

TEST(SamplerOptionsTest, BreakersAreRefusedByNumberAndLength) {
  SamplerOptions options{.biases = {}, .breakers = {{""}}};
  EXPECT_THAT(ValidateSampler(options, 9).error().message, HasSubstr("generate.breaker bytes: 0"));
  options.breakers = {{std::string(41, 'x')}};
  EXPECT_THAT(ValidateSampler(options, 9).error().message, HasSubstr("generate.breaker bytes: 41"));
  options.breakers = std::vector<std::string>(17, "x");
  EXPECT_THAT(ValidateSampler(options, 9).error().message,
              HasSubstr("breakers: 17 given, must be at most 16"));
  options.breakers = std::vector<std::string>(16, std::string(40, 'x'));
  EXPECT_TRUE(ValidateSampler(options, 9));
  EXPECT_TRUE(Sampler::Create(options, 9, {}));
}

}  // namespace
}  // namespace kvd::sampler_chain_order_test
