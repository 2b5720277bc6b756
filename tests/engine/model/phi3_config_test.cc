#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"

namespace kvd {
namespace {

using ::testing::Each;

TEST(Phi3ConfigTest, WithoutFactorsOneRotationServesAllLengths) {
  const auto config = Metadata("phi3").U32("rope.dimension_count", 8).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->long_rope_from, 0u);
  EXPECT_EQ(config->rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config->rope.rotated_dim, 8u);
  EXPECT_FALSE(config->rope.interleaved);
  EXPECT_EQ(config->attention_scale, 0.25f);
}

TEST(Phi3ConfigTest, FactorsChangeAtTheEndOfTheOriginalContext) {
  for (const char* tensor : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    const auto config = Metadata("phi3")
                            .U32("rope.scaling.original_context_length", 128)
                            .F32("rope.scaling.attn_factor", 1.19f)
                            .WithTensor(tensor)
                            .Read();
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->long_rope_from, 128u);
    EXPECT_EQ(config->rope.scaling, RopeScaling::kLongRope);
    EXPECT_EQ(config->rope.attention_factor, 1.19f);
    EXPECT_EQ(config->rope.freq_scale, 1.0f);
  }
  EXPECT_EQ(Metadata("phi3").WithTensor("rope_factors_long.weight").Read()->long_rope_from, 512u);
  EXPECT_EQ(Metadata("phi3").String("rope.scaling.type", "longrope").Read()->rope.scaling,
            RopeScaling::kLongRope);
}

TEST(Phi3ConfigTest, ADeclaredWindowIsLeftUnused) {
  EXPECT_THAT(Metadata("phi3").U32("attention.sliding_window", 100).Read()->window, Each(0));
}

TEST(Phi3ConfigTest, NumbersAreBoundedAndNamed) {
  ExpectRefused(Metadata("phi3").U32("rope.scaling.original_context_length", 0), Code::kCorrupt,
                "phi3.rope.scaling.original_context_length: 0, must be 1");
  ExpectRefused(Metadata("phi3").Without("phi3.attention.layer_norm_rms_epsilon"), Code::kNotFound,
                "phi3.attention.layer_norm_rms_epsilon");
  ExpectRefused(Metadata("phi3").Without("phi3.feed_forward_length"), Code::kNotFound,
                "phi3.feed_forward_length");
  ExpectRefused(Metadata("phi3").U32("attention.head_count", 0), Code::kCorrupt, "head_count: 0");
  ExpectRefused(Metadata("phi3").F32("rope.scaling.attn_factor", -1.0f), Code::kCorrupt,
                "attn_factor");
  ExpectRefused(Metadata("phi3").Bool("attention.causal", false), Code::kUnsupported, "causal");
}

}  // namespace
}  // namespace kvd
