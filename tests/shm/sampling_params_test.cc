#include "shm/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <type_traits>

namespace kvd {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns the error message for kPlainSampling with one field changed.
template <class Field>
std::string Refusal(Field SamplingParams::* field, std::type_identity_t<Field> value) {
  SamplingParams params = kPlainSampling;
  params.*field = value;
  const Status status = ValidateSampling(params, "x.");
  if (status) return "";
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  return status.error().message;
}

TEST(SamplingParamsTest, EachFieldIsRefusedByNameWithNumberAndLimit) {
  using P = SamplingParams;
  EXPECT_EQ(Refusal(&P::temperature, -0.5f),
            "x.temperature: -0.5 given, must be at least 0 and finite");
  EXPECT_EQ(Refusal(&P::temperature, kNan),
            "x.temperature: nan given, must be at least 0 and finite");
  EXPECT_EQ(Refusal(&P::temperature, kInfinity),
            "x.temperature: inf given, must be at least 0 and finite");
  EXPECT_EQ(Refusal(&P::top_k, -1), "x.top_k: -1 given, must be at least 0");
  EXPECT_EQ(Refusal(&P::top_p, 0), "x.top_p: 0 given, must be in (0, 1]");
  EXPECT_EQ(Refusal(&P::top_p, 1.5f), "x.top_p: 1.5 given, must be in (0, 1]");
  EXPECT_EQ(Refusal(&P::top_p, kNan), "x.top_p: nan given, must be in (0, 1]");
  EXPECT_EQ(Refusal(&P::min_p, -0.5f), "x.min_p: -0.5 given, must be in [0, 1]");
  EXPECT_EQ(Refusal(&P::min_p, 1.5f), "x.min_p: 1.5 given, must be in [0, 1]");
  EXPECT_EQ(Refusal(&P::min_p, kNan), "x.min_p: nan given, must be in [0, 1]");
  EXPECT_EQ(Refusal(&P::typical_p, 0), "x.typical_p: 0 given, must be in (0, 1]");
  EXPECT_EQ(Refusal(&P::typical_p, 1.5f), "x.typical_p: 1.5 given, must be in (0, 1]");
  EXPECT_EQ(Refusal(&P::typical_p, kNan), "x.typical_p: nan given, must be in (0, 1]");
  for (const float value : {-1.0f, 0.0f, kInfinity, kNan}) {
    EXPECT_EQ(Refusal(&P::repeat_penalty, value),
              "x.repeat_penalty: " + NumberText(value) + " given, must be above 0 and finite");
  }
  for (const float value : {-2.5f, 2.5f, kNan}) {
    EXPECT_EQ(Refusal(&P::presence_penalty, value),
              "x.presence_penalty: " + NumberText(value) + " given, must be in [-2, 2]");
    EXPECT_EQ(Refusal(&P::frequency_penalty, value),
              "x.frequency_penalty: " + NumberText(value) + " given, must be in [-2, 2]");
  }
  EXPECT_EQ(Refusal(&P::repeat_last, -2), "x.repeat_last: -2 given, must be at least -1");
}

TEST(SamplingParamsTest, EachFieldOfTheLaterSamplersIsRefusedByName) {
  using P = SamplingParams;
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(Refusal(&P::top_n_sigma, value),
              "x.top_n_sigma: " + NumberText(value) + " given, must be finite");
  }
  for (const float value : {-0.5f, 1.5f, kNan}) {
    const std::string wrong = NumberText(value) + " given, must be in [0, 1]";
    EXPECT_EQ(Refusal(&P::xtc_probability, value), "x.xtc_probability: " + wrong);
    EXPECT_EQ(Refusal(&P::xtc_threshold, value), "x.xtc_threshold: " + wrong);
  }
  for (const float value : {-0.5f, kInfinity, kNan}) {
    const std::string wrong = NumberText(value) + " given, must be at least 0 and finite";
    EXPECT_EQ(Refusal(&P::dry_multiplier, value), "x.dry_multiplier: " + wrong);
    EXPECT_EQ(Refusal(&P::dynatemp_range, value), "x.dynatemp_range: " + wrong);
    EXPECT_EQ(Refusal(&P::dynatemp_exponent, value), "x.dynatemp_exponent: " + wrong);
  }
  for (const float value : {0.99f, kInfinity, kNan}) {
    EXPECT_EQ(Refusal(&P::dry_base, value),
              "x.dry_base: " + NumberText(value) + " given, must be at least 1 and finite");
  }
  EXPECT_EQ(Refusal(&P::dry_allowed_length, -1),
            "x.dry_allowed_length: -1 given, must be at least 0");
  EXPECT_EQ(Refusal(&P::dry_penalty_last, -2), "x.dry_penalty_last: -2 given, must be at least -1");
  EXPECT_EQ(Refusal(&P::mirostat, 3), "x.mirostat: 3 given, must be 0, 1 or 2");
  EXPECT_EQ(Refusal(&P::mirostat, -1), "x.mirostat: -1 given, must be 0, 1 or 2");
  for (const float value : {-0.5f, 1001.0f, kNan}) {
    const std::string wrong = NumberText(value) + " given, must be in [0, 1000]";
    EXPECT_EQ(Refusal(&P::mirostat_tau, value), "x.mirostat_tau: " + wrong);
    EXPECT_EQ(Refusal(&P::mirostat_eta, value), "x.mirostat_eta: " + wrong);
  }
  for (const float value : {-1.5f, 1.5f, kNan}) {
    EXPECT_EQ(Refusal(&P::adaptive_target, value),
              "x.adaptive_target: " + NumberText(value) + " given, must be in [-1, 1]");
  }
  for (const float value : {-0.5f, 1.0f, kNan}) {
    EXPECT_EQ(Refusal(&P::adaptive_decay, value),
              "x.adaptive_decay: " + NumberText(value) + " given, must be in [0, 0.99]");
  }
  SamplerChain chain{};
  chain.kinds[0] = static_cast<SamplerKind>(11);
  EXPECT_EQ(Refusal(&P::chain, chain), "x.samplers: number 0 is 11, must be at most 10");
}

TEST(SamplingParamsTest, ImpossibleAdaptationStatesAreRefused) {
  const SamplerAdaptation good = InitialAdaptation(kDefaultSampling);
  EXPECT_TRUE(ValidateAdaptation(good));
  EXPECT_EQ(good.mirostat_mu, 10.0f);
  const auto refusal = [&](float SamplerAdaptation::* field, float value) {
    SamplerAdaptation bad = good;
    bad.*field = value;
    const Status status = ValidateAdaptation(bad);
    return status ? std::string() : status.error().message;
  };
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(refusal(&SamplerAdaptation::mirostat_mu, value),
              "mirostat_mu: " + NumberText(value) + " given, must be finite");
    EXPECT_EQ(refusal(&SamplerAdaptation::adaptive_sum, value),
              "adaptive_sum: " + NumberText(value) + " given, must be finite");
    EXPECT_NE(refusal(&SamplerAdaptation::adaptive_weight, value), "");
  }
  EXPECT_EQ(refusal(&SamplerAdaptation::adaptive_weight, -1),
            "adaptive_weight: -1 given, must be at least 0 and finite");
}

TEST(SamplingParamsTest, TheHistoryIsAsLongAsTheLongestWindowInTheChain) {
  SamplingParams params = kDefaultSampling;
  EXPECT_EQ(HistoryWanted(params), 0);
  params.presence_penalty = 1;
  EXPECT_EQ(HistoryWanted(params), 64);
  params.dry_multiplier = 1;
  params.dry_penalty_last = 100;
  EXPECT_EQ(HistoryWanted(params), 100);
  params.dry_penalty_last = -1;
  EXPECT_EQ(HistoryWanted(params), -1);
  params.chain = *ParseSamplerNames("penalties;top_k");
  EXPECT_EQ(HistoryWanted(params), 64);
  params.mirostat = 1;
  EXPECT_EQ(HistoryWanted(params), 0) << "mirostat replaces the chain";
}

TEST(SamplingParamsTest, GreedyNeedsATemperatureInTheChain) {
  SamplingParams params = DefaultSamplingAt(0);
  EXPECT_TRUE(IsGreedy(params));
  params.dynatemp_range = 0.5f;
  EXPECT_FALSE(IsGreedy(params));
  params.mirostat = 2;
  EXPECT_TRUE(IsGreedy(params)) << "mirostat has no dynamic temperature";
  params = DefaultSamplingAt(0);
  params.chain = *ParseSamplerNames("top_k");
  EXPECT_FALSE(IsGreedy(params));
}

TEST(SamplingParamsTest, LimitsThemselvesAreAllowed) {
  EXPECT_TRUE(ValidateSampling(kPlainSampling));
  EXPECT_TRUE(ValidateSampling(kDefaultSampling));
  SamplingParams params = DefaultSamplingAt(0);
  params.top_p = params.typical_p = params.min_p = 1;
  params.presence_penalty = -2;
  params.frequency_penalty = 2;
  params.repeat_penalty = std::numeric_limits<float>::denorm_min();
  params.repeat_last = -1;
  params.top_k = std::numeric_limits<std::int32_t>::max();
  EXPECT_TRUE(ValidateSampling(params));
  params.min_p = 0;
  params.presence_penalty = 2;
  params.frequency_penalty = -2;
  params.temperature = std::numeric_limits<float>::max();
  EXPECT_TRUE(ValidateSampling(params));
}

TEST(SamplingParamsTest, PenaltiesAreOnIfOneOfThemHasAWindow) {
  EXPECT_FALSE(Penalises(kPlainSampling));
  EXPECT_FALSE(Penalises(kDefaultSampling));
  for (float SamplingParams::* const penalty :
       {&SamplingParams::repeat_penalty, &SamplingParams::presence_penalty,
        &SamplingParams::frequency_penalty}) {
    SamplingParams params = kDefaultSampling;
    params.*penalty = 1.5f;
    EXPECT_TRUE(Penalises(params));
    params.repeat_last = 0;
    EXPECT_FALSE(Penalises(params));
    params.repeat_last = -1;
    EXPECT_TRUE(Penalises(params));
  }
}

}  // namespace
}  // namespace kvd
