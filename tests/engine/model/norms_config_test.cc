// Configs and tensors of models with layer norms, with attention and feed-forward in parallel, with
// norms after the rotation, and with embeddings of positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "tests/engine/model/config_metadata.h"
#include "tools/make_model/model_maker.h"

namespace kvd::norms_config_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Metadata LayerNorms(const std::string& architecture) {
  Metadata metadata(architecture);
  metadata.Without(architecture + ".attention.layer_norm_rms_epsilon");
  metadata.F32("attention.layer_norm_epsilon", 1e-4f);
  return metadata;
}

Metadata CommandR() {
  Metadata metadata = LayerNorms("command-r");
  metadata.F32("logit_scale", 0.0625f);
  return metadata;
}

Metadata Cohere2() {
  Metadata metadata = LayerNorms("cohere2");
  metadata.F32("logit_scale", 0.25f).U32("attention.sliding_window", 16).U32("block_count", 5);
  return metadata;
}

TEST(NormsConfigTest, LayerNormsHaveTheirOwnEpsilon) {
  for (const char* name : {"phi2", "stablelm", "falcon", "starcoder2", "gpt2"}) {
    const auto config = LayerNorms(name).Read();
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_TRUE(config->has_layer_norms) << name;
    EXPECT_EQ(config->layer_norm_epsilon, 1e-4f) << name;
    const std::string key = std::string(name) + ".attention.layer_norm_epsilon";
    ExpectRefused(LayerNorms(name).Without(key), Code::kNotFound, key);
    ExpectRefused(LayerNorms(name).F32("attention.layer_norm_epsilon", 0.0f), Code::kCorrupt,
                  key + ": 0.000000, must be finite and above 0");
  }
  for (const char* name : {"hunyuan-dense", "phimoe", "olmo2"}) {
    EXPECT_FALSE(Metadata(name).Read()->has_layer_norms) << name;
    ExpectRefused(LayerNorms(name), Code::kNotFound,
                  std::string(name) + ".attention.layer_norm_rms_epsilon");
  }
}

TEST(NormsConfigTest, SomeModelsRunAttentionAndFeedForwardInParallel) {
  EXPECT_TRUE(CommandR().Read()->is_parallel);
  EXPECT_TRUE(Cohere2().Read()->is_parallel);
  EXPECT_TRUE(LayerNorms("phi2").Read()->is_parallel);
  EXPECT_TRUE(LayerNorms("falcon").Read()->is_parallel);
  EXPECT_FALSE(LayerNorms("starcoder2").Read()->is_parallel);
  EXPECT_FALSE(LayerNorms("gpt2").Read()->is_parallel);
}

TEST(NormsConfigTest, StablelmWithoutAFeedForwardNormIsParallel) {
  EXPECT_TRUE(LayerNorms("stablelm").Read()->is_parallel);
  EXPECT_TRUE(LayerNorms("stablelm").Bool("use_parallel_residual", true).Read()->is_parallel);
  EXPECT_FALSE(LayerNorms("stablelm").WithTensor("blk.0.ffn_norm.weight").Read()->is_parallel);
  EXPECT_FALSE(LayerNorms("stablelm").Bool("use_parallel_residual", false).Read()->is_parallel);
  ExpectRefused(LayerNorms("stablelm").U32("use_parallel_residual", 1), Code::kCorrupt,
                "stablelm.use_parallel_residual");
}

TEST(NormsConfigTest, CommandRMultipliesLogitsAndNormsQAndKIfItHasManyLayers) {
  EXPECT_EQ(CommandR().Read()->logit_scale, 0.0625f);
  EXPECT_TRUE(CommandR().Read()->rope.interleaved);
  EXPECT_FALSE(CommandR().Read()->has_qk_norm);
  EXPECT_FALSE(CommandR().U32("block_count", 63).Read()->has_qk_norm);
  EXPECT_TRUE(CommandR().U32("block_count", 64).Read()->has_qk_norm);
  EXPECT_TRUE(CommandR().WithTensor("blk.0.attn_q_norm.weight").Read()->has_qk_norm);
  for (Metadata metadata : {CommandR(), Cohere2()}) {
    ExpectRefused(metadata.F32("logit_scale", 0.0f), Code::kCorrupt, "logit_scale: 0");
  }
  ExpectRefused(CommandR().Without("command-r.logit_scale"), Code::kNotFound,
                "command-r.logit_scale");
  ExpectRefused(Cohere2().Without("cohere2.logit_scale"), Code::kNotFound, "cohere2.logit_scale");
}

TEST(NormsConfigTest, Cohere2RotatesOnlyLayersWithAWindow) {
  const auto config = Cohere2().F32("rope.freq_base", 50000.0f).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->window, ElementsAre(16, 16, 16, 0, 16));
  EXPECT_THAT(config->is_unrotated, ElementsAre(false, false, false, true, false));
  EXPECT_EQ(config->window_rope.freq_base, 50000.0f);
  ExpectRefused(Cohere2().Without("cohere2.attention.sliding_window"), Code::kNotFound,
                "cohere2.attention.sliding_window");
  ExpectRefused(Cohere2().U32("attention.sliding_window", 0), Code::kCorrupt,
                "cohere2.attention.sliding_window: 0, must be 1");
  ExpectRefused(Cohere2().Bools("attention.sliding_window_pattern", {true}), Code::kCorrupt,
                "cohere2.attention.sliding_window_pattern: 1 elements, there are 5 layers");
  ExpectRefused(Cohere2().U32("rope.dimension_count_swa", 8), Code::kUnsupported,
                "cohere2.rope.dimension_count_swa: 8 differs");
}

TEST(NormsConfigTest, Olmo3HasYarnOnlyInLayersWithoutAWindow) {
  const auto olmo3 = [] {
    Metadata metadata("olmo2");
    metadata.U32("block_count", 4).U32("attention.sliding_window", 16);
    metadata.F32("rope.freq_base", 500000.0f).String("rope.scaling.type", "yarn");
    metadata.F32("rope.scaling.factor", 8.0f).U32("rope.scaling.original_context_length", 64);
    return metadata;
  };
  const auto config =
      olmo3().Bools("attention.sliding_window_pattern", {true, true, true, false}).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->window, ElementsAre(16, 16, 16, 0));
  EXPECT_EQ(config->rope.scaling, RopeScaling::kYarn);
  EXPECT_FLOAT_EQ(config->rope.attention_factor, 1.0f + 0.1f * std::log(8.0f));
  EXPECT_EQ(config->window_rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config->window_rope.freq_base, 500000.0f);
  EXPECT_EQ(config->window_rope.freq_scale, 1.0f);
  EXPECT_EQ(config->window_rope.yarn_ext_factor, 0.0f);
  EXPECT_EQ(config->window_rope.attention_factor, 1.0f);
  EXPECT_EQ(olmo3().Read()->window, config->window);
  EXPECT_THAT(olmo3().U32("attention.sliding_window", 0).Read()->window, Each(0));
  ExpectRefused(olmo3().U32("attention.sliding_window", 1u << 31), Code::kCorrupt,
                "olmo2.attention.sliding_window: 2147483648, must be 0 to 2147483647");
  ExpectRefused(olmo3().Bools("attention.sliding_window_pattern", {true}), Code::kCorrupt,
                "olmo2.attention.sliding_window_pattern: 1 elements");
  ExpectRefused(olmo3().F32("rope.freq_base_swa", 0.0f), Code::kCorrupt,
                "olmo2.rope.freq_base_swa");
}

TEST(NormsConfigTest, Starcoder2LeavesAWindowUnused) {
  EXPECT_THAT(LayerNorms("starcoder2").U32("attention.sliding_window", 16).Read()->window, Each(0));
}

TEST(NormsConfigTest, Gpt2HasPositionsInsteadOfARotation) {
  const auto config = LayerNorms("gpt2").Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_FALSE(config->has_rope);
  EXPECT_EQ(config->position_count, 512u);
  EXPECT_EQ(Metadata("llama").Read()->position_count, 0u);
}

TEST(NormsConfigTest, HunyuanRaisesTheBaseByAlphaAndHasNoFactorOfTheRotation) {
  const auto hunyuan = [] {
    Metadata metadata("hunyuan-dense");
    metadata.F32("rope.freq_base", 10000.0f);
    return metadata;
  };
  EXPECT_EQ(hunyuan().Read()->rope.freq_base, 10000.0f);
  EXPECT_EQ(hunyuan().F32("rope.scaling.alpha", 0.0f).Read()->rope.freq_base, 10000.0f);
  EXPECT_FLOAT_EQ(hunyuan().F32("rope.scaling.alpha", 1000.0f).Read()->rope.freq_base,
                  10000.0f * std::pow(1000.0f, 16.0f / 14.0f));
  EXPECT_EQ(hunyuan().F32("rope.scaling.attn_factor", 1.2f).Read()->rope.attention_factor, 1.0f);
  ExpectRefused(hunyuan().F32("rope.scaling.alpha", -1.0f), Code::kCorrupt,
                "hunyuan-dense.rope.scaling.alpha: -1.000000, must be finite and above 0");
  ExpectRefused(hunyuan().F32("rope.scaling.alpha", 9.0f).U32("rope.dimension_count", 2),
                Code::kCorrupt,
                "hunyuan-dense.rope.scaling.alpha: 9.000000 with heads of 2 rotated elements");
}

TEST(NormsConfigTest, PhimoeChangesItsRotationLikePhi3) {
  Metadata metadata("phimoe");
  metadata.U32("expert_count", 4).U32("expert_used_count", 2);
  metadata.String("rope.scaling.type", "longrope");
  metadata.U32("rope.scaling.original_context_length", 128);
  const auto config = metadata.Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->long_rope_from, 128u);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kLongRope);
  EXPECT_TRUE(config->experts.is_normalised);
  EXPECT_EQ(config->experts.size, 128u);
  ExpectRefused(Metadata("olmo2").String("rope.scaling.type", "longrope"), Code::kUnsupported,
                "olmo2.rope.scaling.type: longrope");
}

// Makes a model, changes its config, and returns the error of binding it.
std::string Problem(const ModelShape& shape, void (*change)(ModelConfig& config)) {
  const auto bytes = MakeModelBytes(shape);
  if (!bytes) return bytes.error().message;
  const auto file = GgufFile::FromBytes(*bytes);
  auto config = ReadModelConfig(*file);
  if (!config) return config.error().message;
  if (const auto bound = BindWeights(*file, *config); !bound) return bound.error().message;
  change(*config);
  const auto bound = BindWeights(*file, *config);
  return bound ? "" : bound.error().message;
}

TEST(NormsTensorsTest, WrongTensorsAreNamed) {
  const ModelShape stablelm = {.architecture = Architecture::kStableLm, .qk_norm = true};
  EXPECT_THAT(Problem(stablelm, [](ModelConfig& c) { c.head_count[1] = 2; }),
              HasSubstr("tensor blk.1.attn_q.weight: shape"));
  EXPECT_THAT(Problem(stablelm, [](ModelConfig& c) { c.has_qk_norm = false; }),
              HasSubstr("tensor blk.0.attn_q_norm.weight: unknown"));
  EXPECT_THAT(Problem(stablelm, [](ModelConfig& c) { c.is_parallel = true; }),
              HasSubstr("tensor blk.0.ffn_norm.weight: unknown"));
  EXPECT_THAT(Problem({.architecture = Architecture::kStableLm},
                      [](ModelConfig& c) { c.has_qk_norm = true; }),
              HasSubstr("tensor blk.0.attn_q_norm.weight: missing"));
  EXPECT_THAT(
      Problem({.architecture = Architecture::kPhi2}, [](ModelConfig& c) { c.is_parallel = false; }),
      HasSubstr("tensor blk.0.ffn_norm.weight: missing"));
  EXPECT_THAT(Problem({.architecture = Architecture::kGpt2},
                      [](ModelConfig& c) { c.position_count = 511; }),
              HasSubstr("tensor position_embd.weight: shape [256, 512], must be [256, 511]"));
}

}  // namespace
}  // namespace kvd::norms_config_test
