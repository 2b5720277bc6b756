// Tests configs and tensors of kimi-linear: layers of Kimi Delta Attention, and layers of latent
// attention without rotation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/model_format.h"
#include "engine/model/model_weights.h"
#include "tests/engine/model/binding_problem.h"
#include "tests/engine/model/config_metadata.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Four heads of 16 elements; latent rows of 32 elements, keys of 16 own and 8 shared elements,
// values of 12 elements; 6 experts after the first layer.
Metadata Kimi() {
  Metadata metadata("kimi-linear");
  metadata.U32s("attention.head_count_kv", {0, 0, 1}).U32("attention.kv_lora_rank", 32);
  metadata.U32("attention.key_length", 40).U32("rope.dimension_count", 8);
  metadata.U32("attention.key_length_mla", 24).U32("attention.value_length_mla", 12);
  metadata.U32("ssm.conv_kernel", 4).U32("kda.head_dim", 16);
  metadata.U32("expert_count", 6).U32("expert_used_count", 2);
  metadata.U32("expert_feed_forward_length", 32).U32("expert_shared_count", 1);
  metadata.U32("leading_dense_block_count", 1).F32("expert_weights_scale", 2.5f);
  return metadata;
}

TEST(KimiConfigTest, LayersWithoutKvHeadsAreRecurrentAndTheOthersLatent) {
  const auto config = Kimi().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->layer_kind,
              ElementsAre(LayerKind::kRecurrent, LayerKind::kRecurrent, LayerKind::kAttention));
  EXPECT_THAT(config->kv_head_count, ElementsAre(0, 0, 1));
  EXPECT_TRUE(config->values_in_keys());
  EXPECT_FALSE(config->has_rope);
  EXPECT_EQ(config->head_dim_k, 40u);
  EXPECT_EQ(config->head_dim_v, 32u);
  EXPECT_EQ(config->latent.plain_dim, 16u);
  EXPECT_EQ(config->latent.shared_dim, 8u);
  EXPECT_EQ(config->latent.query_rank, 0u);
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / std::sqrt(24.0f));
  EXPECT_EQ(config->delta_net.convolution_width, 4u);
  EXPECT_EQ(config->delta_net.head_size, 16u);
  EXPECT_EQ(config->delta_net.key_heads, 4u);
  EXPECT_EQ(config->delta_net.value_heads, 4u);
  // The inputs of the three convolutions of the last 3 tokens, and a matrix for each head.
  EXPECT_EQ(StateFloatsOf(*config, 0), 3u * 3 * 64 + 4 * 16 * 16);
  EXPECT_EQ(StateFloatsOf(*config, 2), 0u);
}

TEST(KimiConfigTest, ExpertsAreChosenBySigmoidAndTheirWeightsNormalised) {
  const auto config = Kimi().Bool("expert_weights_norm", false).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->has_experts, ElementsAre(false, true, true));
  EXPECT_EQ(config->experts.gating, ExpertGating::kSigmoid);
  EXPECT_TRUE(config->experts.is_normalised) << "the key is not read";
  EXPECT_EQ(config->experts.scale, 2.5f);
  EXPECT_EQ(config->experts.shared_size, 32u);
  EXPECT_EQ(Kimi().U32("expert_gating_func", 1).Read()->experts.gating, ExpertGating::kSoftmax);
}

TEST(KimiConfigTest, TheValueLengthInPublishedFilesIsNotTheCellLength) {
  EXPECT_TRUE(Kimi().U32("attention.value_length", 72).Read().has_value());
}

TEST(KimiConfigTest, NumbersAreRequiredAndBounded) {
  for (const char* suffix :
       {"attention.kv_lora_rank", "rope.dimension_count", "ssm.conv_kernel", "kda.head_dim",
        "feed_forward_length", "attention.layer_norm_rms_epsilon"}) {
    const std::string key = "kimi-linear." + std::string(suffix);
    ExpectRefused(Kimi().Without(key), Code::kNotFound, key);
  }
  ExpectRefused(Kimi().U32("kda.head_dim", 257), Code::kCorrupt, "257, must be 1 to 256");
  ExpectRefused(Kimi().U32("ssm.conv_kernel", 33), Code::kCorrupt, "33, must be 1 to 32");
  ExpectRefused(Kimi().U32("attention.key_length", 48), Code::kCorrupt,
                "kimi-linear.attention.key_length: 48, must be 40");
  ExpectRefused(Kimi().U32("rope.dimension_count", 24), Code::kCorrupt,
                "kimi-linear.rope.dimension_count: 24, must be 1 to 23");
  ExpectRefused(Kimi().U32s("attention.head_count_kv", {0, 1}), Code::kCorrupt,
                "kimi-linear.attention.head_count_kv");
  ExpectRefused(Kimi().Bool("attention.causal", false), Code::kUnsupported, "causal");
  // Without the lengths of latent attention, every head has keys of its own.
  for (const char* suffix : {"attention.key_length_mla", "attention.value_length_mla"}) {
    ExpectRefused(
        Kimi().U32("attention.value_length", 12).Without("kimi-linear." + std::string(suffix)),
        Code::kCorrupt, "kimi-linear.attention.head_count_kv: 1 of layer 2, must be 4");
  }
}

TEST(KimiConfigTest, TensorsOfAnotherShapeAreNamed) {
  const auto bytes =
      MakeModelBytes({.architecture = Architecture::kKimiLinear, .type = kernels::DataType::kF32});
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  const auto file = GgufFile::FromBytes(*bytes);
  const auto config = ReadModelConfig(*file);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_TRUE(BindWeights(*file, *config).has_value());
  const auto problem = [&](auto change) { return test::BindingProblem(*file, *config, change); };
  EXPECT_THAT(problem([](ModelConfig& c) { c.delta_net.head_size = 32; }),
              HasSubstr("tensor blk.0.attn_q.weight: shape"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.delta_net.convolution_width = 3; }),
              HasSubstr("tensor blk.0.ssm_conv1d_q.weight: shape"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.layer_kind[0] = LayerKind::kAttention; }),
              HasSubstr("tensor blk.0.attn_kv_a_mqa.weight: missing"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.layer_kind[1] = LayerKind::kRecurrent; }),
              HasSubstr("tensor blk.1."));
}

}  // namespace
}  // namespace kvd
