// Configs of encoders, and of decoders that embed texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;

Metadata Encoder(const std::string& architecture) {
  Metadata metadata(architecture);
  metadata.U32("attention.head_count_kv", 4).F32("attention.layer_norm_epsilon", 1e-5f);
  return metadata.TypeCount(2);
}

TEST(EncoderConfigTest, TheFileNamesThePooling) {
  EXPECT_EQ(Encoder("bert").Read()->encoder.pooling, Pooling::kNone);
  EXPECT_EQ(Encoder("bert").U32("pooling_type", 2).Read()->encoder.pooling, Pooling::kCls);
  EXPECT_EQ(Metadata("qwen3").Read()->encoder.pooling, std::nullopt);
  EXPECT_EQ(Metadata("qwen3").U32("pooling_type", 3).Read()->encoder.pooling, Pooling::kLast);
  ExpectRefused(Encoder("bert").U32("pooling_type", 5), Code::kCorrupt,
                "bert.pooling_type: 5, must be 0 to 4");
}

TEST(EncoderConfigTest, PoolingsAreFoundByName) {
  for (const Pooling pooling :
       {Pooling::kNone, Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kRank}) {
    EXPECT_EQ(PoolingByName(PoolingName(pooling)), pooling);
  }
  EXPECT_EQ(PoolingByName("sum"), std::nullopt);
}

TEST(EncoderConfigTest, WindowsExtendToBothSides) {
  const auto modern = Encoder("modern-bert").U32("attention.sliding_window", 16).Read();
  ASSERT_TRUE(modern.has_value()) << modern.error().message;
  EXPECT_THAT(modern->encoder.has_window, ElementsAre(false, true, true));
  EXPECT_EQ(modern->encoder.reach, 8u);
  EXPECT_EQ(modern->window_rope.freq_base, 10000.0f);
  const auto gemma = Encoder("gemma-embedding")
                         .U32("attention.sliding_window", 16)
                         .U32("attention.sliding_window_pattern", 3)
                         .Read();
  ASSERT_TRUE(gemma.has_value()) << gemma.error().message;
  EXPECT_THAT(gemma->encoder.has_window, ElementsAre(true, true, false));
  EXPECT_THAT(Encoder("modern-bert").Read()->encoder.has_window, ElementsAre());
  EXPECT_FALSE(gemma->has_decoder);
}

TEST(EncoderConfigTest, NumbersOutOfTheirRangesAreRefusedByName) {
  ExpectRefused(Encoder("bert").Bool("attention.causal", true), Code::kUnsupported,
                "bert.attention.causal: true");
  ExpectRefused(Encoder("bert").U32("attention.head_count_kv", 3), Code::kCorrupt,
                "bert.attention.head_count: 4 is not a multiple of the 3 KV heads");
  ExpectRefused(Encoder("bert").U32("embedding_length", 66), Code::kCorrupt,
                "bert.embedding_length: 66 is not a multiple of the 4 heads");
  ExpectRefused(Encoder("nomic-bert").U32("attention.value_length", 8), Code::kUnsupported,
                "nomic-bert.attention.value_length: 8 differs from the key length 16");
  ExpectRefused(Encoder("bert").Without("bert.attention.layer_norm_epsilon"), Code::kNotFound,
                "bert.attention.layer_norm_epsilon");
  ExpectRefused(
      Encoder("gemma-embedding").Without("gemma-embedding.attention.layer_norm_rms_epsilon"),
      Code::kNotFound, "gemma-embedding.attention.layer_norm_rms_epsilon");
  ExpectRefused(Encoder("jina-bert-v2").TypeCount(0), Code::kCorrupt,
                "tokenizer.ggml.token_type_count: 0, must be 1 to 65536");
  ExpectRefused(Encoder("modern-bert").U32("attention.sliding_window", 0x80000000u), Code::kCorrupt,
                "modern-bert.attention.sliding_window: 2147483648");
  ExpectRefused(Encoder("modern-bert")
                    .U32("attention.sliding_window", 16)
                    .U32("attention.sliding_window_pattern", 1025),
                Code::kCorrupt, "modern-bert.attention.sliding_window_pattern: 1025");
  ExpectRefused(Encoder("gemma-embedding").U32("dense_2_feat_out", 128).U32("dense_2_feat_in", 63),
                Code::kCorrupt, "gemma-embedding.dense_2_feat_in: 63, must be 64");
  ExpectRefused(Encoder("gemma-embedding").U32("dense_3_feat_out", 0), Code::kCorrupt,
                "gemma-embedding.dense_3_feat_out: 0");
}

TEST(EncoderConfigTest, ProjectionsMustFollowEachOther) {
  const auto config =
      Encoder("gemma-embedding").U32("dense_2_feat_out", 128).U32("dense_3_feat_out", 32).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->encoder.projection_sizes, ElementsAre(128, 32));
}

TEST(EncoderConfigTest, TheClassifierHasTheLabelsOfTheFile) {
  const auto plain = Encoder("bert").WithTensor("cls.output.weight").Read();
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_TRUE(plain->encoder.classifier.is_present);
  EXPECT_EQ(plain->encoder.classifier.label_count, 1u);
  const auto labelled = Metadata("qwen3").Strings("classifier.output_labels", {"yes", "no"}).Read();
  ASSERT_TRUE(labelled.has_value()) << labelled.error().message;
  EXPECT_FALSE(labelled->encoder.classifier.is_present);
  EXPECT_THAT(labelled->encoder.classifier.labels, ElementsAre("yes", "no"));
  ExpectRefused(Metadata("qwen3").Strings("classifier.output_labels", {}), Code::kCorrupt,
                "qwen3.classifier.output_labels: 0, must be 1 to 4096");
}

TEST(EncoderConfigTest, OnlyDecodersWithTheLayersOfLlamaReadTexts) {
  EXPECT_TRUE(Metadata("llama").Read()->encoder.is_causal);
  EXPECT_FALSE(Metadata("llama").Read()->has_cross_attention());
  EXPECT_EQ(Metadata("gemma3").Read()->encoder.layer_count, 0u);
  EXPECT_EQ(Metadata("olmo2").Read()->encoder.layer_count, 0u);
  EXPECT_EQ(
      Metadata("qwen3").U32s("feed_forward_length", {128, 128, 64}).Read()->encoder.layer_count,
      0u);
}

}  // namespace
}  // namespace kvd
