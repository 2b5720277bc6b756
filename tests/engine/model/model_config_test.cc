#include "engine/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(ModelConfigTest, DefaultsAreThoseOfTheFormat) {
  auto config = Metadata().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->vocab_size, 100u);
  EXPECT_EQ(config->layer_count, 3u);
  EXPECT_THAT(config->head_count, ElementsAre(4, 4, 4));
  EXPECT_THAT(config->kv_head_count, Each(2));
  EXPECT_EQ(config->head_dim_k, 16u);
  EXPECT_EQ(config->head_dim_v, 16u);
  EXPECT_EQ(config->attention_scale, 0.25f);
  EXPECT_TRUE(config->rope.interleaved);
  EXPECT_EQ(config->rope.rotated_dim, 16u);
  EXPECT_EQ(config->rope.freq_base, 10000.0f);
  EXPECT_EQ(config->rope.freq_scale, 1.0f);
  EXPECT_EQ(config->rope.attention_factor, 1.0f);
  EXPECT_EQ(config->rope.yarn_ext_factor, 0.0f);
  EXPECT_EQ(config->rope.original_context_length, 512u);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->has_qkv_bias);
}

TEST(ModelConfigTest, SiblingsOfLlamaRotateHalves) {
  for (const char* architecture : {"qwen2", "qwen3"}) {
    auto config = Metadata(architecture).Read();
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->architecture_name(), architecture);
    EXPECT_FALSE(config->rope.interleaved);
  }
}

TEST(ModelConfigTest, UnknownArchitecturesAreRefusedWithTheListOfThoseSupported) {
  ExpectRefused(Metadata().Architecture("rwkv\x01"), Code::kUnsupported,
                "general.architecture: rwkv\\x01 is not supported; supported: llama, qwen2, "
                "qwen3");
  ExpectRefused(Metadata().Without("general.architecture"), Code::kNotFound,
                "general.architecture");
}

TEST(ModelConfigTest, EachRequiredNumberIsNamedWhenMissing) {
  for (const char* key : {"llama.vocab_size", "llama.context_length", "llama.embedding_length",
                          "llama.block_count", "llama.feed_forward_length",
                          "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    ExpectRefused(Metadata().Without(key), Code::kNotFound, key);
  }
}

TEST(ModelConfigTest, EachNumberIsBounded) {
  const std::pair<const char*, std::uint32_t> limits[] = {
      {"vocab_size", ModelConfig::kVocabSizeMax},
      {"context_length", 0x7fffffff},
      {"embedding_length", ModelConfig::kEmbeddingSizeMax},
      {"block_count", ModelConfig::kLayerCountMax},
      {"feed_forward_length", ModelConfig::kFeedForwardSizeMax},
      {"attention.head_count", ModelConfig::kHeadCountMax},
      {"attention.head_count_kv", ModelConfig::kHeadCountMax},
      {"attention.key_length", ModelConfig::kHeadDimMax},
      {"attention.value_length", ModelConfig::kHeadDimMax}};
  for (auto [suffix, max] : limits) {
    std::string range = ", must be 1 to " + std::to_string(max);
    ExpectRefused(Metadata().U32(suffix, 0), Code::kCorrupt,
                  "llama." + std::string(suffix) + ": 0" + range);
    ExpectRefused(Metadata().U32(suffix, max + 1), Code::kCorrupt,
                  "llama." + std::string(suffix) + ": " + std::to_string(max + 1) + range);
  }
}

TEST(ModelConfigTest, HeadsMustDivide) {
  ExpectRefused(Metadata().U32("attention.head_count_kv", 3), Code::kCorrupt,
                "llama.attention.head_count: 4 of layer 0 is not a multiple of its 3 KV heads");
  ExpectRefused(Metadata().U32("embedding_length", 66), Code::kCorrupt,
                "66 is not a multiple of the 4 heads");
  ExpectRefused(Metadata().U32("embedding_length", 2), Code::kCorrupt, "not a multiple");
  EXPECT_THAT(Metadata().Without("llama.attention.head_count_kv").Read()->kv_head_count, Each(4));
}

TEST(ModelConfigTest, AnExplicitHeadLengthNeedNotDivideTheEmbedding) {
  auto config =
      Metadata("qwen3").U32("attention.key_length", 32).U32("attention.value_length", 32).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->head_dim_k, 32u);
  EXPECT_EQ(config->rope.rotated_dim, 32u);
  ExpectRefused(Metadata().U32("attention.key_length", 32), Code::kUnsupported,
                "llama.attention.value_length: 16 differs from the key length 32");
}

TEST(ModelConfigTest, NumbersPerLayerMayBeArraysOfAllLayers) {
  auto config = Metadata()
                    .U32s("attention.head_count", {4, 4, 4})
                    .U32s("attention.head_count_kv", {1, 2, 4})
                    .U32s("feed_forward_length", {64, 128, 96})
                    .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->kv_head_count, ElementsAre(1, 2, 4));
  EXPECT_THAT(config->feed_forward_size, ElementsAre(64, 128, 96));
  ExpectRefused(Metadata().U32s("attention.head_count_kv", {1, 2}), Code::kCorrupt,
                "2 elements, there are 3 layers");
  ExpectRefused(Metadata().U32s("attention.head_count_kv", {1, 2, 0}), Code::kCorrupt,
                "head_count_kv: 0, must be 1");
  ExpectRefused(Metadata().U32s("attention.head_count_kv", {1, 2, 3}), Code::kCorrupt,
                "of layer 2 is not a multiple of its 3");
}

TEST(ModelConfigTest, FloatsMustBeFiniteAndPositive) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  float infinity = std::numeric_limits<float>::infinity();
  for (const char* suffix :
       {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.attn_factor"}) {
    for (float number : {0.0f, -1.0f, nan, infinity}) {
      ExpectRefused(Metadata().F32(suffix, number), Code::kCorrupt, "llama." + std::string(suffix));
    }
  }
  for (const char* suffix : {"rope.scaling.factor", "rope.scale_linear"}) {
    for (float number : {-2.0f, nan, infinity, 1e-42f}) {
      ExpectRefused(Metadata().F32(suffix, number), Code::kCorrupt, "llama." + std::string(suffix));
    }
  }
}

TEST(ModelConfigTest, TheRotatedPartIsEvenAndWithinTheHead) {
  EXPECT_EQ(Metadata().U32("rope.dimension_count", 8).Read()->rope.rotated_dim, 8u);
  ExpectRefused(Metadata().U32("rope.dimension_count", 7), Code::kCorrupt,
                "llama.rope.dimension_count: 7 is odd");
  ExpectRefused(Metadata().U32("rope.dimension_count", 18), Code::kCorrupt, "must be 1 to 16");
  ExpectRefused(Metadata().U32("rope.dimension_count", 0), Code::kCorrupt, "dimension_count: 0");
}

TEST(ModelConfigTest, LinearScalingIsOneDividedByTheFactorUnderBothKeys) {
  for (const char* suffix : {"rope.scaling.factor", "rope.scale_linear"}) {
    auto config = Metadata().F32(suffix, 4.0f).Read();
    EXPECT_EQ(config->rope.freq_scale, 0.25f);
    EXPECT_EQ(config->rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(config->rope.attention_factor, 1.0f);
    EXPECT_EQ(Metadata().F32(suffix, 0.0f).Read()->rope.freq_scale, 1.0f);
  }
  auto none =
      Metadata().F32("rope.scaling.factor", 4.0f).String("rope.scaling.type", "none").Read();
  EXPECT_EQ(none->rope.freq_scale, 1.0f);
  ExpectRefused(Metadata().String("rope.scaling.type", "longrope"), Code::kUnsupported,
                "llama.rope.scaling.type: longrope");
}

TEST(ModelConfigTest, YarnComputesItsRampAndItsMagnitude) {
  auto config = Metadata()
                    .U32("attention.key_length", 128)
                    .U32("attention.value_length", 128)
                    .String("rope.scaling.type", "yarn")
                    .F32("rope.scaling.factor", 4.0f)
                    .F32("rope.freq_base", 1e6f)
                    .U32("rope.scaling.original_context_length", 32768)
                    .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(config->rope.freq_scale, 0.25f);
  EXPECT_EQ(config->rope.yarn_ext_factor, 1.0f);
  // 128 * ln(32768 / (32 * 2 pi)) / (2 ln 1e6) = 23.60; with 1 turn 39.65.
  EXPECT_EQ(config->rope.yarn_low, 23.0f);
  EXPECT_EQ(config->rope.yarn_high, 40.0f);
  EXPECT_FLOAT_EQ(config->rope.attention_factor, 1.0f + 0.1f * std::log(4.0f));
}

TEST(ModelConfigTest, YarnParametersOfTheFileAreReadAndBounded) {
  Metadata yarn = Metadata().String("rope.scaling.type", "yarn").F32("rope.scaling.factor", 2.0f);
  auto config = Metadata(yarn)
                    .F32("rope.scaling.yarn_ext_factor", 0.0f)
                    .F32("rope.scaling.attn_factor", 1.5f)
                    .F32("rope.scaling.yarn_beta_fast", 16.0f)
                    .F32("rope.scaling.yarn_beta_slow", 2.0f)
                    .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->rope.attention_factor, 1.5f);
  EXPECT_EQ(config->rope.yarn_beta_fast, 16.0f);
  EXPECT_EQ(config->rope.yarn_beta_slow, 2.0f);
  EXPECT_EQ(Metadata(yarn).F32("rope.scaling.yarn_ext_factor", -1.0f).Read()->rope.yarn_ext_factor,
            1.0f);
  ExpectRefused(Metadata(yarn).F32("rope.scaling.yarn_ext_factor", 2.0f), Code::kCorrupt,
                "yarn_ext_factor");
  ExpectRefused(Metadata(yarn).F32("rope.scaling.yarn_ext_factor", std::nanf("")), Code::kCorrupt,
                "yarn_ext_factor");
  ExpectRefused(Metadata(yarn).F32("rope.scaling.yarn_beta_fast", 0.0f), Code::kCorrupt,
                "yarn_beta_fast");
  ExpectRefused(Metadata(yarn).F32("rope.scaling.yarn_beta_slow", -1.0f), Code::kCorrupt,
                "yarn_beta_slow");
  ExpectRefused(Metadata(yarn).F32("rope.freq_base", 1.0f), Code::kCorrupt, "ramp undefined");
}

TEST(ModelConfigTest, RopeFactorsImplyLlama3ScalingOnlyForLlama) {
  EXPECT_EQ(Metadata().WithTensor("rope_freqs.weight").Read()->rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(Metadata("qwen2").WithTensor("rope_freqs.weight").Read()->rope.scaling,
            RopeScaling::kNone);
}

TEST(ModelConfigTest, TheTokenListOverridesTheDeclaredVocabulary) {
  EXPECT_EQ(Metadata().Tokens(77).Read()->vocab_size, 77u);
  EXPECT_EQ(Metadata().Without("llama.vocab_size").Tokens(5).Read()->vocab_size, 5u);
  ExpectRefused(Metadata().Tokens(0), Code::kCorrupt, "tokenizer.ggml.tokens: 0");
}

TEST(ModelConfigTest, UnsupportedFeaturesAreRefused) {
  ExpectRefused(Metadata("gemma2").U32("expert_count", 8), Code::kUnsupported,
                "gemma2.expert_count: 8, architecture gemma2 is not supported with experts");
  EXPECT_TRUE(Metadata().U32("expert_count", 0).Read().has_value());
  ExpectRefused(Metadata().Bool("attention.causal", false), Code::kUnsupported,
                "llama.attention.causal");
}

TEST(ModelConfigTest, ValuesOfAnotherTypeAreNamed) {
  ExpectRefused(Metadata().F32("block_count", 3.0f), Code::kCorrupt,
                "llama.block_count: must be u64, is f32");
  ExpectRefused(Metadata().String("rope.freq_base", "x"), Code::kCorrupt,
                "llama.rope.freq_base: must be f32, is string");
}

TEST(ModelConfigTest, BiasesAndTiedEmbeddingsAreDetectedFromTensors) {
  EXPECT_FALSE(Metadata().WithTensor("output.weight").Read()->tied_embeddings);
  EXPECT_TRUE(Metadata().WithTensor("blk.0.attn_k.bias").Read()->has_qkv_bias);
}

}  // namespace
}  // namespace kvd
