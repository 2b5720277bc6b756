#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(GemmaConfigTest, DefaultsOfGemma2AreThoseOfTheFormat) {
  const auto config = Metadata("gemma2").Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->window, ElementsAre(4096, 0, 4096));
  EXPECT_EQ(config->attention_softcap, 50.0f);
  EXPECT_EQ(config->logit_softcap, 30.0f);
  EXPECT_EQ(config->embedding_scale, 8.0f);
  EXPECT_EQ(config->attention_scale, 0.25f);
  EXPECT_FALSE(config->rope.interleaved);
  EXPECT_EQ(config->window_rope.freq_base, 10000.0f);
  // Layers with and without a window use the same rope.freq_base and rope.scaling.factor.
  const auto scaled =
      Metadata("gemma2").F32("rope.freq_base", 5e4f).F32("rope.scaling.factor", 2.0f).Read();
  EXPECT_EQ(scaled->window_rope.freq_base, 5e4f);
  EXPECT_EQ(scaled->window_rope.freq_scale, 0.5f);
}

TEST(GemmaConfigTest, Gemma3ScalesItsGlobalLayersOnly) {
  const auto config = Metadata("gemma3")
                          .U32("attention.sliding_window", 512)
                          .U32("attention.sliding_window_pattern", 3)
                          .F32("rope.freq_base", 1e6f)
                          .F32("rope.scaling.factor", 8.0f)
                          .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->window, ElementsAre(512, 512, 0));
  EXPECT_EQ(config->rope.freq_base, 1e6f);
  EXPECT_EQ(config->rope.freq_scale, 0.125f);
  EXPECT_EQ(config->window_rope.freq_base, 10000.0f);
  EXPECT_EQ(config->window_rope.freq_scale, 1.0f);
  EXPECT_EQ(config->attention_softcap, 0.0f);
  EXPECT_EQ(config->logit_softcap, 0.0f);
  EXPECT_EQ(config->rope_of(0).freq_base, 10000.0f);
  EXPECT_EQ(config->rope_of(2).freq_base, 1e6f);
  EXPECT_EQ(Metadata("gemma3")
                .U32("attention.sliding_window", 512)
                .F32("rope.freq_base_swa", 2e4f)
                .Read()
                ->window_rope.freq_base,
            2e4f);
  EXPECT_EQ(Metadata("gemma3").F32("final_logit_softcapping", 20.0f).Read()->logit_softcap, 20.0f);
  EXPECT_EQ(Metadata("gemma3").F32("final_logit_softcapping", 0.0f).Read()->logit_softcap, 0.0f);
}

TEST(GemmaConfigTest, YarnReachesTheWindowLayersWithTheirOwnScale) {
  const auto config = Metadata("gemma3")
                          .U32("attention.sliding_window", 512)
                          .String("rope.scaling.type", "yarn")
                          .F32("rope.scaling.factor", 4.0f)
                          .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_FLOAT_EQ(config->rope.attention_factor, 1.0f + 0.1f * std::log(4.0f));
  EXPECT_EQ(config->window_rope.attention_factor, 1.0f);
  EXPECT_EQ(config->window_rope.freq_scale, 1.0f);
}

TEST(GemmaConfigTest, ThePatternIsAPeriodOrAListOfLayers) {
  const auto window = [](Metadata metadata) {
    return metadata.U32("attention.sliding_window", 7).Read()->window;
  };
  EXPECT_THAT(window(Metadata("gemma3")), Each(7));  // of six layers, the last one has no window
  EXPECT_THAT(window(Metadata("gemma3").U32("attention.sliding_window_pattern", 0)), Each(7));
  EXPECT_THAT(window(Metadata("gemma3").U32("attention.sliding_window_pattern", 1)), Each(0));
  EXPECT_THAT(
      window(Metadata("gemma3").Bools("attention.sliding_window_pattern", {false, true, true})),
      ElementsAre(0, 7, 7));
  EXPECT_THAT(Metadata("gemma3").Read()->window, Each(0));
  EXPECT_THAT(Metadata("gemma3").U32("attention.sliding_window", 0).Read()->window, Each(0));
  const auto refused = [](Metadata metadata, const std::string& text) {
    ExpectRefused(metadata.U32("attention.sliding_window", 7), Code::kCorrupt, text);
  };
  refused(Metadata("gemma3").U32("attention.sliding_window_pattern", 1025),
          "sliding_window_pattern: 1025, must be 0 to 1024");
  refused(Metadata("gemma3").Bools("attention.sliding_window_pattern", {true}),
          "sliding_window_pattern: 1 elements, there are 3 layers");
  refused(Metadata("gemma3").U32s("attention.sliding_window_pattern", {1, 1, 0}),
          "sliding_window_pattern");
}

TEST(GemmaConfigTest, TheLargestModelsScaleByTheHeadShareOfTheEmbedding) {
  const auto scale = [](const char* architecture, std::uint32_t layers) {
    return Metadata(architecture)
        .U32("block_count", layers)
        .U32("attention.key_length", 64)
        .U32("attention.value_length", 64)
        .Read()
        ->attention_scale;
  };
  EXPECT_EQ(scale("gemma2", 46), 0.25f);  // 64 / 4 heads
  EXPECT_EQ(scale("gemma2", 62), 0.125f);
  EXPECT_EQ(scale("gemma3", 62), 0.25f);
  EXPECT_EQ(scale("gemma3", 46), 0.125f);
  ExpectRefused(Metadata("gemma2")
                    .U32("block_count", 46)
                    .U32("attention.head_count", 128)
                    .U32("attention.key_length", 64)
                    .U32("attention.value_length", 64),
                Code::kCorrupt, "attention.head_count: 128, must be 1 to 64");
}

TEST(GemmaConfigTest, EachNumberIsBounded) {
  for (const char* suffix : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    for (const float number : {0.0f, -1.0f, std::nanf("")}) {
      ExpectRefused(Metadata("gemma2").F32(suffix, number), Code::kCorrupt, suffix);
    }
  }
  ExpectRefused(Metadata("gemma3").F32("final_logit_softcapping", -1.0f), Code::kCorrupt,
                "gemma3.final_logit_softcapping: -1");
  ExpectRefused(Metadata("gemma2").U32("attention.sliding_window", 0), Code::kCorrupt,
                "gemma2.attention.sliding_window: 0, must be 1 to 2147483647");
  ExpectRefused(Metadata("gemma3").U32("attention.sliding_window", 1u << 31), Code::kCorrupt,
                "gemma3.attention.sliding_window: 2147483648, must be 0 to 2147483647");
  Metadata windowed = Metadata("gemma3").U32("attention.sliding_window", 7);
  for (const char* suffix :
       {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"}) {
    EXPECT_TRUE(Metadata(windowed).U32(suffix, 16).Read().has_value());
    ExpectRefused(Metadata(windowed).U32(suffix, 8), Code::kUnsupported,
                  std::string(suffix) + ": 8 differs from the 16 of the other layers");
  }
  ExpectRefused(Metadata(windowed).F32("rope.freq_base_swa", 0.0f), Code::kCorrupt,
                "rope.freq_base_swa");
  ExpectRefused(Metadata("gemma3").Bool("attention.causal", false), Code::kUnsupported, "causal");
}

}  // namespace
}  // namespace kvd
