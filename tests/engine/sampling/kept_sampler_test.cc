#include "engine/sampling/kept_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace kvd {
namespace {

using ::testing::HasSubstr;
constexpr std::uint32_t kVocabulary = 100;

KeptSampler Example() {
  KeptSampler kept{
      .options = {.sampling = kPlainSampling,
                  .seed = 0x123456789abcdef0u,
                  .ignore_eos = true,
                  .biases = {{3, 2.5f}, {99, -std::numeric_limits<float>::infinity()}},
                  .breakers = {{"\n", "###"}}},
      .progress = {
          .draw_count = 12345,
          .adaptation = {.mirostat_mu = 7.5f, .adaptive_sum = 3.25f, .adaptive_weight = 9.5f},
          .adaptation_before = {.mirostat_mu = 8, .adaptive_sum = 3, .adaptive_weight = 9}}};
  SamplingParams& sampling = kept.options.sampling;
  sampling.temperature = 1.25f;
  sampling.top_k = 7;
  sampling.top_p = 0.9f;
  sampling.min_p = 0.1f;
  sampling.typical_p = 0.8f;
  sampling.repeat_penalty = 1.1f;
  sampling.presence_penalty = 0.5f;
  sampling.frequency_penalty = -0.5f;
  sampling.repeat_last = 33;
  sampling.mirostat = 2;
  sampling.dry_multiplier = 0.75f;
  sampling.chain = *ParseSamplerNames("min_p;dry;adaptive_p");
  return kept;
}

TEST(SamplerStateTest, AWrittenStateIsReadBack) {
  const auto back = DecodeSampler(EncodeSampler(Example()), kVocabulary);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(EncodeSampler(*back), EncodeSampler(Example()));
  EXPECT_EQ(back->progress.draw_count, 12345u);
  EXPECT_EQ(back->options.seed, 0x123456789abcdef0u);
  EXPECT_EQ(back->options.sampling.repeat_last, 33);
  EXPECT_TRUE(back->options.ignore_eos);
  EXPECT_EQ(back->options.sampling, Example().options.sampling);
  EXPECT_EQ(back->progress.adaptation, Example().progress.adaptation);
  EXPECT_EQ(back->progress.adaptation_before, Example().progress.adaptation_before);
  EXPECT_EQ(back->options.breakers, Example().options.breakers);
  ASSERT_EQ(back->options.biases.size(), 2u);
  EXPECT_EQ(back->options.biases[1].token, 99);
}

TEST(SamplerStateTest, ARestoredSamplerDrawsTheSameTokens) {
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
  constexpr std::size_t kRecord = 16;
  constexpr std::size_t kSampling = kRecord + offsetof(layout::SamplerRecord, sampling);
  constexpr std::size_t kAdaptation = kRecord + offsetof(layout::SamplerRecord, adaptation);
  constexpr std::size_t kFlags = kRecord + offsetof(layout::SamplerRecord, flags);
  constexpr std::size_t kBiases = kRecord + sizeof(layout::SamplerRecord);
  constexpr std::size_t kBreakers = kBiases + 2 * sizeof(wire::LogitBias);
  EXPECT_THAT(refusal(0, std::uint32_t{1}), HasSubstr("version"));
  EXPECT_THAT(refusal(0, std::uint32_t{5}), HasSubstr("version"));
  EXPECT_THAT(refusal(4, std::uint32_t{1}), HasSubstr("breakers"));
  EXPECT_THAT(refusal(4, std::uint32_t{300}), HasSubstr("bias_count"));
  EXPECT_THAT(refusal(8, std::uint32_t{1}), HasSubstr("length"));
  EXPECT_THAT(refusal(8, std::uint32_t{3}), HasSubstr("breakers"));
  EXPECT_THAT(refusal(8, std::uint32_t{17}), HasSubstr("breaker_count"));
  EXPECT_THAT(refusal(12, std::uint32_t{1}), HasSubstr("reserved"));
  EXPECT_THAT(refusal(kSampling, nan), HasSubstr("temperature"));
  EXPECT_THAT(refusal(kSampling + offsetof(SamplingParams, repeat_last), std::int32_t{-2}),
              HasSubstr("repeat_last"));
  EXPECT_THAT(refusal(kSampling + offsetof(SamplingParams, dry_base), 0.5f), HasSubstr("dry_base"));
  EXPECT_THAT(refusal(kSampling + offsetof(SamplingParams, chain), std::uint8_t{99}),
              HasSubstr("samplers: number 0 is 99"));
  EXPECT_THAT(refusal(kAdaptation, nan), HasSubstr("mirostat_mu"));
  EXPECT_THAT(refusal(kAdaptation + 4, nan), HasSubstr("adaptive_sum"));
  EXPECT_THAT(refusal(kAdaptation + 8, -1.0f), HasSubstr("adaptive_weight"));
  EXPECT_THAT(refusal(kAdaptation + 12, nan), HasSubstr("mirostat_mu"));
  EXPECT_THAT(refusal(kFlags - 4, std::uint32_t{1}), HasSubstr("cell_count"));
  EXPECT_THAT(refusal(kFlags, std::uint32_t{0}), HasSubstr("flags"));
  EXPECT_THAT(refusal(kFlags, std::uint32_t{3}), HasSubstr("flags"))
      << "the sampler has biases, but kSamplerBiased is not set";
  EXPECT_THAT(refusal(kFlags, std::uint32_t{7}), HasSubstr("breaker_count"))
      << "the sampler has breakers, but kSamplerOwnBreakers is not set";
  EXPECT_THAT(refusal(kFlags, std::uint32_t{15 + 32}), HasSubstr("flags"))
      << "the sampler does not draw as llama.cpp does, but has kSamplerDrawLast";
  EXPECT_THAT(refusal(kFlags, std::uint32_t{15 + 512}), HasSubstr("flags"));
  EXPECT_THAT(refusal(kFlags + 4, std::uint32_t{1}), HasSubstr("grammar_begin"))
      << "the sampler has no grammar";
  EXPECT_THAT(refusal(kFlags + 8, std::uint32_t{1}), HasSubstr("reserved"));
  EXPECT_THAT(refusal(kBiases, std::int32_t{100}), HasSubstr("token 100"));
  EXPECT_THAT(refusal(kBiases + 4, 2000.0f), HasSubstr("bias"));
  EXPECT_THAT(refusal(kBreakers, std::uint32_t{0}), HasSubstr("breaker"));
  EXPECT_THAT(refusal(kBreakers, std::uint32_t{1000}), HasSubstr("breakers: 1000 bytes"));
  EXPECT_THAT(refusal(kBreakers + 4, std::uint8_t{0xff}), HasSubstr("UTF-8"));
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeSampler(std::span(good).first(length), kVocabulary)) << length;
  }
}

// The bytes of version 2, written field by field.
std::vector<std::byte> Version2(std::uint32_t flags) {
  std::vector<std::byte> bytes;
  const auto put = [&bytes](auto value) {
    const auto added = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), added.begin(), added.end());
  };
  put(std::uint32_t{2});  // version
  put(std::uint32_t{1});  // bias_count
  put(std::uint64_t{77});
  put(std::uint64_t{5});
  for (const float number : {1.5f}) put(number);
  put(std::int32_t{7});
  for (const float number : {0.9f, 0.1f, 0.8f, 1.1f, 0.5f, -0.5f}) put(number);
  put(std::int32_t{33});
  put(std::uint32_t{0});  // cell_count
  put(flags);
  put(std::uint32_t{0});  // reserved
  put(wire::LogitBias{3, 2.5f});
  return bytes;
}

TEST(SamplerStateTest, BytesOfVersion2AreReadWithTheDefaultChain) {
  const auto kept = DecodeSampler(Version2(7), kVocabulary);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->options.seed, 77u);
  EXPECT_EQ(kept->progress.draw_count, 5u);
  EXPECT_TRUE(kept->options.ignore_eos);
  EXPECT_FALSE(kept->options.breakers);
  ASSERT_EQ(kept->options.biases.size(), 1u);
  EXPECT_EQ(kept->options.biases[0].token, 3);
  SamplingParams expected = kPlainSampling;
  expected.temperature = 1.5f;
  expected.top_k = 7;
  expected.top_p = 0.9f;
  expected.min_p = 0.1f;
  expected.typical_p = 0.8f;
  expected.repeat_penalty = 1.1f;
  expected.presence_penalty = 0.5f;
  expected.frequency_penalty = -0.5f;
  expected.repeat_last = 33;
  EXPECT_EQ(kept->options.sampling, expected);
  EXPECT_EQ(kept->progress.adaptation, InitialAdaptation(expected));
  EXPECT_FALSE(DecodeSampler(Version2(15), kVocabulary)) << "version 2 has no breakers";
  const auto bytes = Version2(7);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeSampler(std::span(bytes).first(length), kVocabulary)) << length;
  }
}

// The bytes of version 3: as today's without the fields of the grammar.
std::vector<std::byte> Version3() {
  std::vector<std::byte> bytes = EncodeSampler(Example());
  const std::uint32_t version = 3;
  std::memcpy(bytes.data(), &version, sizeof version);
  const auto hash = bytes.begin() + 16 + offsetof(layout::SamplerRecord, grammar_hash);
  bytes.erase(hash, hash + sizeof(std::uint64_t));
  return bytes;
}

TEST(SamplerStateTest, BytesOfVersion3HaveNoGrammar) {
  const auto kept = DecodeSampler(Version3(), kVocabulary);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->options.breakers, Example().options.breakers);
  EXPECT_EQ(kept->progress.draw_count, Example().progress.draw_count);
  EXPECT_EQ(kept->grammar.hash, 0u);
  const auto bytes = Version3();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeSampler(std::span(bytes).first(length), kVocabulary)) << length;
  }
  auto reserved = bytes;
  reserved[16 + offsetof(layout::SamplerRecord, grammar_begin)] = std::byte{1};
  EXPECT_FALSE(DecodeSampler(reserved, kVocabulary));
}

TEST(SamplerStateTest, TheGrammarIsKept) {
  KeptSampler kept = Example();
  kept.grammar = {.hash = 77, .begin = 12};
  const auto back = DecodeSampler(EncodeSampler(kept), kVocabulary);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->grammar.hash, 77u);
  EXPECT_EQ(back->grammar.begin, 12u);
}

}  // namespace
}  // namespace kvd
