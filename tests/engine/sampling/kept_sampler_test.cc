#include "engine/sampling/kept_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace kvd {
namespace {

using ::testing::HasSubstr;
constexpr std::uint32_t kVocabulary = 100;

KeptSampler Example() {
  return {.options = {.sampling = {.temperature = 1.25f,
                                   .top_k = 7,
                                   .top_p = 0.9f,
                                   .min_p = 0.1f,
                                   .typical_p = 0.8f,
                                   .repeat_penalty = 1.1f,
                                   .presence_penalty = 0.5f,
                                   .frequency_penalty = -0.5f,
                                   .repeat_last = 33},
                      .seed = 0x123456789abcdef0u,
                      .ignore_eos = true,
                      .biases = {{3, 2.5f}, {99, -std::numeric_limits<float>::infinity()}}},
          .draw_count = 12345};
}

TEST(SamplerStateTest, ComesBackAsItWas) {
  const auto back = DecodeSampler(EncodeSampler(Example()), kVocabulary);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(EncodeSampler(*back), EncodeSampler(Example()));
  EXPECT_EQ(back->draw_count, 12345u);
  EXPECT_EQ(back->options.seed, 0x123456789abcdef0u);
  EXPECT_EQ(back->options.sampling.repeat_last, 33);
  EXPECT_TRUE(back->options.ignore_eos);
  ASSERT_EQ(back->options.biases.size(), 2u);
  EXPECT_EQ(back->options.biases[1].token, 99);
}

TEST(SamplerStateTest, ASamplerThatGoesOnDrawsWhatTheFirstOneWouldHave) {
  std::vector<float> logits(kVocabulary);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  SamplerOptions params;
  params.sampling.temperature = 1.5f;
  params.seed = 42;
  Sampler whole = *Sampler::Create(params, kVocabulary, {});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(whole.Sample(logits));
  Sampler second = *Sampler::Create(params, kVocabulary, {});
  second.SkipDraws(whole.state().draw_count);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(second.Sample(logits)->token, whole.Sample(logits)->token) << i;
  }
}

TEST(SamplerStateTest, EveryDamagedFieldIsNamed) {
  const std::vector<std::byte> good = EncodeSampler(Example());
  const auto refusal = [&](std::size_t offset, auto value) -> std::string {
    std::vector<std::byte> bytes = good;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    const auto kept = DecodeSampler(bytes, kVocabulary);
    if (kept) return "accepted";
    EXPECT_EQ(kept.error().code, Code::kCorrupt);
    return kept.error().message;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(0, std::uint32_t{1}), HasSubstr("version"));
  EXPECT_THAT(refusal(4, std::uint32_t{3}), HasSubstr("bias_count"));
  EXPECT_THAT(refusal(24, nan), HasSubstr("temperature"));
  EXPECT_THAT(refusal(28, std::int32_t{-1}), HasSubstr("top_k"));
  EXPECT_THAT(refusal(32, 0.0f), HasSubstr("top_p"));
  EXPECT_THAT(refusal(36, 2.0f), HasSubstr("min_p"));
  EXPECT_THAT(refusal(40, nan), HasSubstr("typical_p"));
  EXPECT_THAT(refusal(44, -1.0f), HasSubstr("repeat_penalty"));
  EXPECT_THAT(refusal(48, 3.0f), HasSubstr("presence_penalty"));
  EXPECT_THAT(refusal(52, -3.0f), HasSubstr("frequency_penalty"));
  EXPECT_THAT(refusal(56, std::int32_t{-2}), HasSubstr("repeat_last"));
  EXPECT_THAT(refusal(60, std::uint32_t{1}), HasSubstr("cell_count"));
  EXPECT_THAT(refusal(64, std::uint32_t{0}), HasSubstr("flags"));
  EXPECT_THAT(refusal(64, std::uint32_t{3}), HasSubstr("flags"))
      << "the sampler has biases, but kSamplerBiased is not set";
  EXPECT_THAT(refusal(64, std::uint32_t{15}), HasSubstr("flags"));
  EXPECT_THAT(refusal(68, std::uint32_t{1}), HasSubstr("reserved"));
  EXPECT_THAT(refusal(72, std::int32_t{100}), HasSubstr("token 100"));
  EXPECT_THAT(refusal(76, 2000.0f), HasSubstr("bias"));
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeSampler(std::span(good).first(length), kVocabulary)) << length;
  }
}

}  // namespace
}  // namespace kvd
