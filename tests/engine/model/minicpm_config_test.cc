#include "tests/engine/model/config_metadata.h"

#include <cmath>

namespace kvd {
namespace {

ModelConfig Read(const Metadata& metadata) {
  auto config = metadata.Read();
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(ModelConfig{});
}

TEST(MiniCpmConfigTest, AFileWithoutScalesHasTheDefaultsOfItsSizes) {
  const auto config = Read(Metadata("minicpm"));
  EXPECT_EQ(config.embedding_scale, 12.0f);
  EXPECT_FLOAT_EQ(config.residual_scale, 1.4f / std::sqrt(3.0f));
  EXPECT_FLOAT_EQ(config.logit_scale, 64.0f / 256.0f);
}

TEST(MiniCpmConfigTest, EveryScaleOfTheFileReplacesItsDefault) {
  const auto embedding = Read(Metadata("minicpm").F32("embedding_scale", 3.0f));
  EXPECT_EQ(embedding.embedding_scale, 3.0f);
  EXPECT_FLOAT_EQ(embedding.logit_scale, 0.25f);
  const auto residual = Read(Metadata("minicpm").F32("residual_scale", 0.5f));
  EXPECT_EQ(residual.residual_scale, 0.5f);
  EXPECT_EQ(residual.embedding_scale, 12.0f);
  const auto logits = Read(Metadata("minicpm").F32("logit_scale", 8.0f));
  EXPECT_EQ(logits.logit_scale, 0.125f);
  EXPECT_EQ(logits.embedding_scale, 12.0f);
}

TEST(MiniCpmConfigTest, AScaleOfZeroMeansNoScale) {
  const auto config =
      Read(Metadata("minicpm").F32("embedding_scale", 0.0f).F32("residual_scale", 0.0f));
  EXPECT_EQ(config.embedding_scale, 1.0f);
  EXPECT_EQ(config.residual_scale, 1.0f);
}

TEST(MiniCpmConfigTest, TheAttentionScaleOfTheFileIsIgnored) {
  EXPECT_EQ(Read(Metadata("minicpm").F32("attention.scale", 0.5f)).attention_scale,
            Read(Metadata("minicpm")).attention_scale);
}

TEST(MiniCpmConfigTest, AScaleBelowZeroIsRefused) {
  for (const char* name : {"embedding_scale", "residual_scale", "logit_scale"}) {
    ExpectRefused(Metadata("minicpm").F32(name, -1.0f), Code::kCorrupt,
                  std::string("minicpm.") + name);
  }
}

}  // namespace
}  // namespace kvd
