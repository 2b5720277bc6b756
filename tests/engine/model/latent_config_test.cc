// Tests configs and tensors of models with multi-head latent attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_weights.h"
#include "tests/engine/model/binding_problem.h"
#include "tests/engine/model/config_metadata.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

// The model has heads of 16 plain and 8 rotated elements, latent rows of 32 elements and values of
// 12 elements.
Metadata CachesLatent() {
  Metadata metadata("deepseek2");
  metadata.U32("attention.head_count_kv", 1).U32("attention.kv_lora_rank", 32);
  metadata.U32("attention.key_length", 40).U32("attention.value_length", 32);
  metadata.U32("attention.key_length_mla", 24).U32("attention.value_length_mla", 12);
  metadata.U32("rope.dimension_count", 8);
  return metadata;
}

// The metadata of a deepseek2 model in the form of the earliest files, which have attn_kv_b.
Metadata CachesHeads() {
  Metadata metadata("deepseek2");
  metadata.U32("attention.head_count_kv", 4).U32("attention.kv_lora_rank", 32);
  metadata.U32("attention.key_length", 24).U32("attention.value_length", 12);
  metadata.U32("rope.dimension_count", 8);
  return metadata;
}

TEST(LatentConfigTest, ACellHasOneLatentRow) {
  const auto config = CachesLatent().U32("attention.q_lora_rank", 20).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_TRUE(config->values_in_keys());
  EXPECT_EQ(config->kv_head_count, std::vector<std::uint32_t>(3, 1));
  EXPECT_EQ(config->head_dim_k, 40u);
  EXPECT_EQ(config->head_dim_v, 32u);
  EXPECT_EQ(config->rope.rotated_dim, 8u);
  EXPECT_EQ(config->rope.first_rotated, 32u);
  EXPECT_EQ(config->latent.query_rank, 20u);
  EXPECT_EQ(config->latent.plain_dim, 16u);
  EXPECT_EQ(config->latent.value_dim, 12u);
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / std::sqrt(24.0f));
}

TEST(LatentConfigTest, TheOlderLayoutHasKeysAndValuesOfEachHead) {
  const auto config = CachesHeads().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_FALSE(config->values_in_keys());
  EXPECT_EQ(config->head_dim_k, 24u);
  EXPECT_EQ(config->head_dim_v, 12u);
  EXPECT_EQ(config->rope.first_rotated, 16u);
  EXPECT_EQ(config->latent.query_rank, 0u);
}

TEST(LatentConfigTest, YarnScalesTheScoresInsteadOfTheRotation) {
  const auto config = CachesLatent()
                          .String("rope.scaling.type", "yarn")
                          .F32("rope.scaling.factor", 40.0f)
                          .F32("rope.scaling.yarn_log_multiplier", 0.0707f)
                          .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const float scale = 1.0f + 0.0707f * std::log(40.0f);
  EXPECT_FLOAT_EQ(config->attention_scale, scale * scale / std::sqrt(24.0f));
  EXPECT_EQ(config->rope.attention_factor, 1.0f);
}

TEST(LatentConfigTest, LengthsThatContradictEachOtherAreNamed) {
  ExpectRefused(CachesLatent().Without("deepseek2.attention.kv_lora_rank"), Code::kNotFound,
                "deepseek2.attention.kv_lora_rank");
  ExpectRefused(CachesLatent().U32("attention.key_length", 48), Code::kCorrupt,
                "deepseek2.attention.key_length: 48, must be 40");
  ExpectRefused(CachesLatent().U32("attention.value_length", 12), Code::kCorrupt,
                "deepseek2.attention.value_length: 12, must be 32");
  ExpectRefused(CachesLatent().U32("rope.dimension_count", 24), Code::kCorrupt,
                "deepseek2.rope.dimension_count: 24, must be 1 to 23");
  ExpectRefused(CachesLatent().U32("rope.dimension_count", 7), Code::kCorrupt,
                "deepseek2.attention.key_length: 40, must be 39");
  ExpectRefused(CachesLatent().U32("attention.q_lora_rank", 1u << 20), Code::kCorrupt,
                "deepseek2.attention.q_lora_rank: 1048576");
  ExpectRefused(CachesHeads().U32("attention.head_count_kv", 2), Code::kCorrupt,
                "deepseek2.attention.head_count_kv: 2 of layer 0, must be 4");
  ExpectRefused(CachesHeads().Without("deepseek2.rope.dimension_count"), Code::kNotFound,
                "deepseek2.rope.dimension_count");
}

TEST(LatentConfigTest, ExpertsAreChosenBySoftmaxUnlessTheFileSaysOtherwise) {
  const auto with_experts = [] {
    Metadata metadata = CachesLatent();
    metadata.U32("expert_count", 8).U32("expert_used_count", 2);
    metadata.U32("expert_feed_forward_length", 32);
    return metadata;
  };
  EXPECT_EQ(with_experts().Read()->experts.gating, ExpertGating::kSoftmax);
  EXPECT_EQ(with_experts().U32("expert_gating_func", 2).Read()->experts.gating,
            ExpertGating::kSigmoid);
  // The sizes of GLM-4.7 Flash.
  EXPECT_EQ(with_experts().U32("vocab_size", 154880).U32("block_count", 47).Read()->experts.gating,
            ExpertGating::kSigmoid);
}

TEST(LatentConfigTest, TensorsOfAnotherShapeAreNamed) {
  const auto bytes = MakeModelBytes({.architecture = Architecture::kDeepseek2,
                                     .query_rank = 48,
                                     .type = kernels::DataType::kF32});
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  const auto file = GgufFile::FromBytes(*bytes);
  const auto config = ReadModelConfig(*file);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_TRUE(BindWeights(*file, *config).has_value());
  const auto problem = [&](auto change) { return test::BindingProblem(*file, *config, change); };
  EXPECT_THAT(problem([](ModelConfig& c) { c.latent.plain_dim = 16; }),
              HasSubstr("tensor blk.0.attn_q_b.weight: shape"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.latent.query_rank = 0; }),
              HasSubstr("tensor blk.0.attn_q.weight: missing"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.latent.rank = 32; }),
              HasSubstr("tensor blk.0.attn_kv_a_mqa.weight: shape"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.latent.value_dim = 32; }),
              HasSubstr("tensor blk.0.attn_v_b.weight: shape"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.latent.caches_latent = false; }),
              HasSubstr("tensor blk.0.attn_kv_b.weight: missing"));
  const ModelFingerprint own = ComputeFingerprint(*file, *config);
  ModelConfig other = *config;
  other.latent.caches_latent = false;
  EXPECT_NE(ComputeFingerprint(*file, other), own);
}

}  // namespace
}  // namespace kvd
