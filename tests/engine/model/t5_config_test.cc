// Configs of T5 models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

Metadata T5() {
  Metadata metadata("t5");
  metadata.U32("attention.head_count_kv", 4).U32("attention.relative_buckets_count", 32);
  metadata.U32("attention.key_length", 16).U32("attention.value_length", 16);
  return metadata;
}

TEST(T5ConfigTest, EncoderAndDecoderHaveTheirOwnLayers) {
  const auto config = T5().U32("decoder_block_count", 5).U32("decoder_start_token_id", 7).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->encoder.layer_count, 3u);
  EXPECT_EQ(config->layer_count, 5u);
  EXPECT_THAT(config->head_count, SizeIs(5));
  EXPECT_THAT(config->head_count, Each(4));
  EXPECT_THAT(config->feed_forward_size, Each(128));
  EXPECT_THAT(config->layer_kind, Each(LayerKind::kAttention));
  EXPECT_TRUE(config->has_cross_attention());
  EXPECT_FALSE(config->has_rope);
  EXPECT_EQ(config->attention_scale, 1.0f);
  EXPECT_EQ(config->encoder.attention_scale, 1.0f);
  EXPECT_EQ(config->bias_bucket_count, 32u);
  EXPECT_EQ(config->decoder_start_token, 7);
}

TEST(T5ConfigTest, WithoutKeysTheDecoderIsAsDeepAsTheEncoderAndHasNoStartToken) {
  const auto config = T5().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->layer_count, 3u);
  EXPECT_EQ(config->decoder_start_token, -1);
}

TEST(T5ConfigTest, HeadsMayBeNarrowerThanTheEmbedding) {
  const auto config = T5().U32("attention.key_length", 8).U32("attention.value_length", 8).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->encoder.head_dim, 8u);
}

TEST(T5ConfigTest, NumbersOutOfTheirRangesAreRefusedByName) {
  const std::string buckets = "t5.attention.relative_buckets_count";
  ExpectRefused(T5().Without(buckets), Code::kNotFound, buckets);
  ExpectRefused(T5().U32("attention.relative_buckets_count", 3), Code::kCorrupt,
                buckets + ": 3, must be 4 to 254");
  ExpectRefused(T5().U32("attention.relative_buckets_count", 255), Code::kCorrupt,
                buckets + ": 255, must be 4 to 254");
  ExpectRefused(T5().U32("decoder_block_count", 0), Code::kCorrupt, "t5.decoder_block_count: 0");
  ExpectRefused(T5().U32("decoder_start_token_id", 100), Code::kCorrupt,
                "t5.decoder_start_token_id: 100, must be 0 to 99");
  ExpectRefused(T5().U32("attention.head_count_kv", 2), Code::kUnsupported,
                "t5.attention.head_count_kv: 2 differs from the 4 heads");
  ExpectRefused(T5().Without("t5.attention.layer_norm_rms_epsilon"), Code::kNotFound,
                "t5.attention.layer_norm_rms_epsilon");
}

}  // namespace
}  // namespace kvd
