// The numbers of recurrent and hybrid models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model_config.h"
#include "tests/engine/config_metadata.h"

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
                "rwkv6.embedding_length: 64 is no multiple of the head size 24");
  ExpectRefused(Rwkv6().U32("rescale_every_n_layers", 1025), Code::kCorrupt,
                "1025, must be 0 to 1024");
  EXPECT_TRUE(Rwkv6().U32("token_shift_count", 2).Read().has_value());
  ExpectRefused(Rwkv6().U32("token_shift_count", 1), Code::kUnsupported,
                "rwkv6.token_shift_count: 1, only 2 is supported");
}

}  // namespace
}  // namespace kvd
