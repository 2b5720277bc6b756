// Tests configs of recurrent and hybrid models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Metadata Lfm2() {
  Metadata metadata("lfm2");
  metadata.U32("shortconv.l_cache", 3).U32s("attention.head_count_kv", {0, 2, 0});
  return metadata;
}

TEST(RecurrentConfigTest, LayersOfLfm2WithoutKvHeadsAreConvolutions) {
  const auto config = Lfm2().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->layer_kind,
              ElementsAre(LayerKind::kRecurrent, LayerKind::kAttention, LayerKind::kRecurrent));
  EXPECT_THAT(config->window, ElementsAre(0, 0, 0));
  EXPECT_EQ(config->short_convolution_width, 3u);
  EXPECT_FALSE(config->rope.interleaved);
}

TEST(RecurrentConfigTest, AWindowOfLfm2IsThatOfItsAttention) {
  EXPECT_THAT(Lfm2().U32("attention.sliding_window", 64).Read()->window, ElementsAre(0, 64, 0));
  ExpectRefused(Lfm2().U32("attention.sliding_window", 1u << 31), Code::kCorrupt,
                "lfm2.attention.sliding_window: 2147483648, must be 0 to 2147483647");
}

TEST(RecurrentConfigTest, TheNumbersOfLfm2AreRequiredAndBounded) {
  for (const char* key : {"lfm2.shortconv.l_cache", "lfm2.feed_forward_length",
                          "lfm2.attention.layer_norm_rms_epsilon"}) {
    ExpectRefused(Lfm2().Without(key), Code::kNotFound, key);
  }
  ExpectRefused(Lfm2().U32("shortconv.l_cache", 0), Code::kCorrupt, "0, must be 1 to 32");
  ExpectRefused(Lfm2().U32("shortconv.l_cache", 1), Code::kCorrupt, "1, must be 2 to 32");
  ExpectRefused(Lfm2().U32("shortconv.l_cache", 33), Code::kCorrupt, "33, must be 1 to 32");
  ExpectRefused(Lfm2().Bool("attention.causal", false), Code::kUnsupported, "causal");
}

Metadata Rwkv6() {
  Metadata metadata("rwkv6");
  metadata.F32("attention.layer_norm_epsilon", 1e-5f).U32("attention.head_count", 0);
  metadata.U32("wkv.head_size", 16).U32("time_mix_extra_dim", 8).U32("time_decay_extra_dim", 12);
  return metadata;
}

Metadata Rwkv7() {
  Metadata metadata("rwkv7");
  metadata.F32("attention.layer_norm_epsilon", 1e-5f).U32("wkv.head_size", 32);
  metadata.U32("attention.decay_lora_rank", 5).U32("attention.iclr_lora_rank", 6);
  metadata.U32("attention.value_residual_mix_lora_rank", 7).U32("attention.gate_lora_rank", 8);
  return metadata;
}

TEST(RecurrentConfigTest, ModelsOfRwkvHaveRecurrentLayersOnly) {
  for (const Metadata& metadata : {Rwkv6(), Rwkv7()}) {
    const auto config = metadata.Read();
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_THAT(config->layer_kind, Each(LayerKind::kRecurrent));
    EXPECT_THAT(config->kv_head_count, Each(0));
    EXPECT_FALSE(config->has_rope);
    EXPECT_EQ(config->layer_norm_epsilon, 1e-5f);
    EXPECT_EQ(config->rwkv.halving_period, 0u);
  }
  EXPECT_EQ(Rwkv6().Read()->rwkv.mix_rank, 8u);
  EXPECT_EQ(Rwkv6().Read()->rwkv.decay_rank, 12u);
  EXPECT_EQ(Rwkv6().U32("rescale_every_n_layers", 6).Read()->rwkv.halving_period, 6u);
  const RwkvConfig rwkv7 = Rwkv7().Read()->rwkv;
  EXPECT_EQ(rwkv7.head_size, 32u);
  EXPECT_EQ(rwkv7.decay_rank, 5u);
  EXPECT_EQ(rwkv7.rate_rank, 6u);
  EXPECT_EQ(rwkv7.value_rank, 7u);
  EXPECT_EQ(rwkv7.gate_rank, 8u);
}

TEST(RecurrentConfigTest, TheNumbersOfRwkvAreRequiredAndBounded) {
  for (const char* suffix : {"attention.layer_norm_epsilon", "wkv.head_size", "feed_forward_length",
                             "time_mix_extra_dim", "time_decay_extra_dim"}) {
    const std::string key = "rwkv6." + std::string(suffix);
    ExpectRefused(Rwkv6().Without(key), Code::kNotFound, key);
  }
  for (const char* suffix :
       {"attention.decay_lora_rank", "attention.iclr_lora_rank",
        "attention.value_residual_mix_lora_rank", "attention.gate_lora_rank"}) {
    const std::string key = "rwkv7." + std::string(suffix);
    ExpectRefused(Rwkv7().Without(key), Code::kNotFound, key);
    ExpectRefused(Rwkv7().U32(suffix, 0), Code::kCorrupt, key + ": 0, must be 1 to 16384");
    ExpectRefused(Rwkv7().U32(suffix, 16385), Code::kCorrupt, key + ": 16385, must be 1 to 16384");
  }
  for (const char* suffix : {"time_mix_extra_dim", "time_decay_extra_dim"}) {
    ExpectRefused(Rwkv6().U32(suffix, 16385), Code::kCorrupt, "16385, must be 1 to 16384");
  }
  ExpectRefused(Rwkv6().F32("attention.layer_norm_epsilon", 0.0f), Code::kCorrupt, "above 0");
  ExpectRefused(Rwkv6().U32("wkv.head_size", 257), Code::kCorrupt, "257, must be 1 to 256");
  ExpectRefused(Rwkv6().U32("wkv.head_size", 24), Code::kCorrupt,
                "rwkv6.embedding_length: 64 is not a multiple of the head size 24");
  ExpectRefused(Rwkv6().U32("rescale_every_n_layers", 1025), Code::kCorrupt,
                "1025, must be 0 to 1024");
  EXPECT_TRUE(Rwkv6().U32("token_shift_count", 2).Read().has_value());
  ExpectRefused(Rwkv6().U32("token_shift_count", 1), Code::kUnsupported,
                "rwkv6.token_shift_count: 1, only 2 is supported");
}

// Metadata of a qwen35 model: heads of 16 elements, 2 key heads and 4 value heads.
Metadata Qwen35() {
  Metadata metadata("qwen35");
  metadata.U32("full_attention_interval", 3).U32s("rope.dimension_sections", {3, 3, 2, 0});
  metadata.U32("ssm.conv_kernel", 4).U32("ssm.state_size", 16).U32("ssm.group_count", 2);
  metadata.U32("ssm.time_step_rank", 4).U32("ssm.inner_size", 64);
  return metadata;
}

TEST(RecurrentConfigTest, TheLastLayerOfEachIntervalOfQwen35IsAttention) {
  const auto config = Qwen35().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->layer_kind,
              ElementsAre(LayerKind::kRecurrent, LayerKind::kRecurrent, LayerKind::kAttention));
  EXPECT_THAT(config->kv_head_count, ElementsAre(0, 0, 2));
  EXPECT_EQ(config->delta_net.convolution_width, 4u);
  EXPECT_EQ(config->delta_net.head_size, 16u);
  EXPECT_EQ(config->delta_net.key_heads, 2u);
  EXPECT_EQ(config->delta_net.value_heads, 4u);
  EXPECT_THAT(Qwen35().Without("qwen35.full_attention_interval").Read()->kv_head_count, Each(0));
}

TEST(RecurrentConfigTest, AListTellsWhichLayersOfQwen35AreRecurrent) {
  const auto list = [](const std::vector<bool>& recurrent) {
    return Qwen35().Bools("attention.recurrent_layers", recurrent);
  };
  EXPECT_THAT(list({false, true, false}).Read()->kv_head_count, ElementsAre(2, 0, 2));
  ExpectRefused(list({false, true}), Code::kCorrupt,
                "qwen35.attention.recurrent_layers: 2 elements, there are 3 layers");
}

TEST(RecurrentConfigTest, PairsOfTheFourthPositionComponentAreNotRotated) {
  const auto still = [](const std::vector<std::uint32_t>& sections) {
    const auto config = Qwen35().U32s("rope.dimension_sections", sections).Read();
    EXPECT_TRUE(config.has_value()) << config.error().message;
    std::vector<bool> pairs;
    for (std::uint32_t pair = 0; pair < 8; ++pair) pairs.push_back(IsStillPair(config->rope, pair));
    return pairs;
  };
  EXPECT_THAT(still({3, 3, 2, 0}), Each(false));
  EXPECT_THAT(still({2, 2, 2, 2}),
              ElementsAre(false, false, false, false, false, false, true, true));
  EXPECT_THAT(still({1, 3, 1, 1}),
              ElementsAre(false, false, false, true, false, true, false, false));
  EXPECT_FALSE(IsStillPair(RopeConfig{}, 0));
}

TEST(RecurrentConfigTest, TheNumbersOfQwen35AreRequiredAndBounded) {
  for (const char* suffix : {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                             "ssm.time_step_rank", "ssm.inner_size", "rope.dimension_sections",
                             "feed_forward_length", "attention.layer_norm_rms_epsilon"}) {
    const std::string key = "qwen35." + std::string(suffix);
    ExpectRefused(Qwen35().Without(key), Code::kNotFound, key);
  }
  ExpectRefused(Qwen35().U32("ssm.conv_kernel", 33), Code::kCorrupt, "33, must be 1 to 32");
  ExpectRefused(Qwen35().U32("ssm.state_size", 257), Code::kCorrupt, "257, must be 1 to 256");
  ExpectRefused(Qwen35().U32("ssm.group_count", 0), Code::kCorrupt, "0, must be 1 to 8192");
  ExpectRefused(Qwen35().U32("ssm.time_step_rank", 8193), Code::kCorrupt, "must be 1 to 8192");
  ExpectRefused(Qwen35().U32("ssm.time_step_rank", 5), Code::kCorrupt,
                "qwen35.ssm.time_step_rank: 5 is not a multiple of the 2 groups");
  ExpectRefused(Qwen35().U32("ssm.inner_size", 65), Code::kCorrupt,
                "qwen35.ssm.inner_size: 65, must be 64 to 64");
  ExpectRefused(Qwen35().U32s("rope.dimension_sections", {3, 3, 2}), Code::kCorrupt,
                "3 elements, there are 4 components");
  ExpectRefused(Qwen35().U32s("rope.dimension_sections", {0, 0, 0, 0}), Code::kCorrupt,
                "qwen35.rope.dimension_sections: 0, must be 1 to 16");
  ExpectRefused(Qwen35().U32s("rope.dimension_sections", {0xffffffff, 1, 0, 0}), Code::kCorrupt,
                "4294967296, must be 1 to 16");
  ExpectRefused(Qwen35().U32("full_attention_interval", 0), Code::kCorrupt, "0, must be 1 to 1024");
  ExpectRefused(Qwen35().U32s("attention.head_count_kv", {0, 0, 0}), Code::kCorrupt,
                "qwen35.attention.head_count_kv: 0, must be 1 to 8192");
}

TEST(RecurrentConfigTest, UnsupportedFeaturesOfQwen35AreRefusedByName) {
  ExpectRefused(Qwen35().U32("expert_count", 8), Code::kUnsupported,
                "architecture qwen35 is not supported with experts");
}

TEST(RecurrentConfigTest, LayersThatDraftTokensAreNotRun) {
  const auto config = Qwen35().U32("nextn_predict_layers", 1).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->layer_count, 2u);
  EXPECT_EQ(config->draft_layer_count, 1u);
  EXPECT_THAT(config->layer_kind, ElementsAre(LayerKind::kRecurrent, LayerKind::kRecurrent));
  ExpectRefused(Qwen35().U32("nextn_predict_layers", 3), Code::kCorrupt,
                "qwen35.nextn_predict_layers: 3, must be 0 to 2");
}

}  // namespace
}  // namespace kvd
