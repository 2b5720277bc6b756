// Tests configs of state-space models, and of hybrid models with state-space layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Metadata Ssm(const char* architecture) {
  Metadata metadata(architecture);
  metadata.U32("ssm.conv_kernel", 4)
      .U32("ssm.inner_size", 128)
      .U32("ssm.state_size", 16)
      .U32("ssm.time_step_rank", 8)
      .U32("ssm.group_count", 2);
  return metadata;
}

TEST(MambaConfigTest, LayersOfMambaAreRecurrentAndHaveNoHeads) {
  for (const char* architecture : {"mamba", "mamba2"}) {
    const auto config = Ssm(architecture).Read();
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_THAT(config->layer_kind, Each(LayerKind::kRecurrent));
    EXPECT_THAT(config->kv_head_count, Each(0));
    EXPECT_THAT(config->feed_forward_size, Each(0));
    EXPECT_EQ(config->ssm.inner_size, 128u);
  }
  EXPECT_EQ(Ssm("mamba").Read()->ssm.group_count, 1u);
  EXPECT_EQ(Ssm("mamba2").Read()->ssm.group_count, 2u);
  EXPECT_EQ(Ssm("mamba2").Read()->ssm.convolved_channels(), 128u + 2 * 2 * 16);
}

TEST(MambaConfigTest, NumbersAreRequiredAndBounded) {
  for (const char* key : {"mamba2.ssm.conv_kernel", "mamba2.ssm.inner_size",
                          "mamba2.ssm.state_size", "mamba2.ssm.time_step_rank",
                          "mamba2.ssm.group_count", "mamba2.attention.layer_norm_rms_epsilon"}) {
    ExpectRefused(Ssm("mamba2").Without(key), Code::kNotFound, key);
  }
  ExpectRefused(Ssm("mamba").U32("ssm.conv_kernel", 1), Code::kCorrupt, "1, must be 2 to 32");
  ExpectRefused(Ssm("mamba").U32("ssm.conv_kernel", 33), Code::kCorrupt, "33, must be 1 to 32");
  ExpectRefused(Ssm("mamba").U32("ssm.state_size", 0), Code::kCorrupt, "mamba.ssm.state_size: 0");
  ExpectRefused(Ssm("mamba2").U32("ssm.time_step_rank", 7), Code::kCorrupt,
                "128 is not a multiple of the 7 heads");
  ExpectRefused(Ssm("mamba2").U32("ssm.group_count", 3), Code::kCorrupt,
                "3 does not divide the 8 heads");
}

TEST(MambaConfigTest, HybridsHaveAttentionWhereThereAreKvHeads) {
  for (const char* architecture : {"jamba", "granitehybrid"}) {
    const auto config = Ssm(architecture).U32s("attention.head_count_kv", {0, 2, 0}).Read();
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_THAT(config->layer_kind,
                ElementsAre(LayerKind::kRecurrent, LayerKind::kAttention, LayerKind::kRecurrent));
    EXPECT_EQ(config->has_rope, std::string_view(architecture) == "granitehybrid");
  }
  const auto falcon = Ssm("falcon-h1").Read();
  ASSERT_TRUE(falcon.has_value()) << falcon.error().message;
  EXPECT_THAT(falcon->layer_kind, Each(LayerKind::kAttention));
  EXPECT_TRUE(falcon->has_rope);
}

TEST(MambaConfigTest, ScalesOfGraniteAreRead) {
  auto metadata = Ssm("granitehybrid");
  metadata.F32("embedding_scale", 12.0f)
      .F32("residual_scale", 0.25f)
      .F32("attention.scale", 0.5f)
      .F32("logit_scale", 8.0f)
      .Bool("rope.scaling.finetuned", false);
  const auto config = metadata.Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->embedding_scale, 12.0f);
  EXPECT_EQ(config->residual_scale, 0.25f);
  EXPECT_EQ(config->attention_scale, 0.5f);
  EXPECT_EQ(config->logit_scale, 0.125f);
  EXPECT_FALSE(config->has_rope);
  ExpectRefused(Ssm("granitehybrid").F32("residual_scale", -1.0f), Code::kCorrupt,
                "granitehybrid.residual_scale");
}

}  // namespace
}  // namespace kvd
