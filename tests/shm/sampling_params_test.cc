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

TEST(SamplingParamsTest, PenaltiesAreOnWhereOneOfThemLooksBack) {
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
