// Tests configs and tensors of mixtures of experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/model/model_weights.h"
#include "tests/engine/model/binding_problem.h"
#include "tests/engine/model/config_metadata.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Metadata Experts(const char* architecture) {
  Metadata metadata(architecture);
  metadata.U32("expert_count", 8).U32("expert_used_count", 2).U32("expert_feed_forward_length", 32);
  return metadata;
}

TEST(ExpertConfigTest, CountsAreBounded) {
  const auto config = Experts("qwen3moe").Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->experts.count, 8u);
  EXPECT_EQ(config->experts.used, 2u);
  EXPECT_EQ(config->experts.size, 32u);
  EXPECT_TRUE(config->experts.is_normalised);
  EXPECT_THAT(config->has_experts, ElementsAre(true, true, true));
  ExpectRefused(Experts("qwen3moe").U32("expert_count", 1025), Code::kCorrupt,
                "qwen3moe.expert_count: 1025, must be 1 to 1024");
  ExpectRefused(Experts("qwen3moe").U32("expert_used_count", 9), Code::kCorrupt,
                "qwen3moe.expert_used_count: 9, must be 1 to 8");
  ExpectRefused(Experts("qwen3moe").U32("expert_used_count", 0), Code::kCorrupt,
                "qwen3moe.expert_used_count: 0");
  ExpectRefused(Experts("qwen3moe").Without("qwen3moe.expert_used_count"), Code::kNotFound,
                "qwen3moe.expert_used_count");
  ExpectRefused(Experts("qwen3moe").Without("qwen3moe.expert_feed_forward_length"), Code::kNotFound,
                "qwen3moe.expert_feed_forward_length");
}

TEST(ExpertConfigTest, GroupsDivideTheExpertsAndHoldEnough) {
  const auto groups = [](std::uint32_t count, std::uint32_t used) {
    return Experts("bailingmoe2")
        .U32("expert_group_count", count)
        .U32("expert_group_used_count", used);
  };
  const auto config = groups(4, 2).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->experts.group_count, 4u);
  EXPECT_EQ(config->experts.groups_used, 2u);
  ExpectRefused(groups(3, 2), Code::kCorrupt,
                "bailingmoe2.expert_group_count: 3 does not divide the 8 experts");
  ExpectRefused(groups(8, 2), Code::kCorrupt, "into groups of at least 2");
  ExpectRefused(groups(4, 5), Code::kCorrupt,
                "bailingmoe2.expert_group_used_count: 5, must be 1 to 4");
  ExpectRefused(groups(4, 1).U32("expert_used_count", 3), Code::kCorrupt,
                "1 groups have 2 experts, a token needs 3");
}

TEST(ExpertConfigTest, GatingScaleAndDenseLayersAreRead) {
  const auto config = Experts("glm4moe")
                          .U32("expert_gating_func", 1)
                          .Bool("expert_weights_norm", false)
                          .F32("expert_weights_scale", 2.5f)
                          .U32("leading_dense_block_count", 2)
                          .U32("expert_shared_count", 3)
                          .Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->experts.gating, ExpertGating::kSoftmax);
  EXPECT_FALSE(config->experts.is_normalised);
  EXPECT_EQ(config->experts.scale, 2.5f);
  EXPECT_EQ(config->experts.shared_size, 96u);
  EXPECT_THAT(config->has_experts, ElementsAre(false, false, true));
  ExpectRefused(Experts("glm4moe").U32("expert_gating_func", 4), Code::kCorrupt,
                "glm4moe.expert_gating_func: 4, must be 1 to 3");
  ExpectRefused(Experts("glm4moe").U32("leading_dense_block_count", 4), Code::kCorrupt,
                "glm4moe.leading_dense_block_count: 4, must be 0 to 3");
  ExpectRefused(Experts("glm4moe").U32("expert_shared_count", 1u << 20), Code::kCorrupt,
                "glm4moe.expert_shared_count: 1048576");
  ExpectRefused(Experts("glm4moe").U32("expert_shared_feed_forward_length", 1u << 30),
                Code::kCorrupt, "glm4moe.expert_shared_feed_forward_length");
  ExpectRefused(Experts("glm4moe").U32("nextn_predict_layers", 3), Code::kCorrupt,
                "glm4moe.nextn_predict_layers: 3, must be 0 to 2");
}

TEST(ExpertConfigTest, ExpertsMayBeInEveryNthLayerOnly) {
  const auto config = Experts("ernie4_5-moe").U32("interleave_moe_layer_step", 2).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->has_experts, ElementsAre(false, true, false));
  ExpectRefused(Experts("ernie4_5-moe").U32("interleave_moe_layer_step", 0), Code::kCorrupt,
                "ernie4_5-moe.interleave_moe_layer_step: 0");
}

TEST(ExpertConfigTest, ALayerOfNemotronIsOfOneKind) {
  Metadata metadata("nemotron_h");
  metadata.U32("ssm.conv_kernel", 4).U32("ssm.inner_size", 128).U32("ssm.state_size", 16);
  metadata.U32("ssm.time_step_rank", 8).U32("ssm.group_count", 2);
  metadata.U32s("feed_forward_length", {0, 128, 0}).U32s("attention.head_count_kv", {0, 0, 2});
  const auto config = metadata.Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->layer_kind,
              ElementsAre(LayerKind::kRecurrent, LayerKind::kFeedForward, LayerKind::kAttention));
  ExpectRefused(metadata.U32s("feed_forward_length", {0, 128, 128}), Code::kCorrupt,
                "layer 2 has both attention and a feed-forward");
}

// Binds the file of one config with another config: the error names the tensor whose shape differs.
TEST(ExpertConfigTest, TensorsOfAnotherShapeAreNamed) {
  ModelShape shape{.architecture = Architecture::kQwen3Moe, .type = kernels::DataType::kF32};
  const auto bytes = MakeModelBytes(shape);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  const auto file = GgufFile::FromBytes(*bytes);
  ASSERT_TRUE(file.has_value());
  const auto config = ReadModelConfig(*file);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const auto weights = BindWeights(*file, *config);
  ASSERT_TRUE(weights.has_value()) << weights.error().message;
  EXPECT_EQ(weights->layers[0].experts.gate.data.size(), 4u);
  EXPECT_NE(weights->layers[0].experts.gate.data[0], weights->layers[0].experts.gate.data[1]);
  const auto problem = [&](auto change) { return test::BindingProblem(*file, *config, change); };
  EXPECT_THAT(problem([](ModelConfig& c) { c.experts.count = 8; }),
              HasSubstr("tensor blk.0.ffn_gate_inp.weight: shape [256, 4], must be [256, 8]"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.experts.size = 256; }),
              HasSubstr("tensor blk.0.ffn_gate_exps.weight: shape [256, 512, 4]"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.experts.shared_size = 64; }),
              HasSubstr("tensor blk.0.ffn_gate_shexp.weight: missing"));
  EXPECT_THAT(problem([](ModelConfig& c) { c.has_experts[1] = false; }),
              HasSubstr("tensor blk.1.ffn_gate.weight: missing"));
}

// Files that differ only in how experts are chosen have the same tensors; their cells differ.
TEST(ExpertConfigTest, TheFingerprintDependsOnHowExpertsAreChosen) {
  const auto bytes = MakeModelBytes({.architecture = Architecture::kQwen3Moe});
  ASSERT_TRUE(bytes.has_value());
  const auto file = GgufFile::FromBytes(*bytes);
  const auto config = ReadModelConfig(*file);
  const ModelFingerprint own = ComputeFingerprint(*file, *config);
  EXPECT_EQ(ComputeFingerprint(*file, *config), own);
  const auto differs = [&](auto change) {
    ModelConfig other = *config;
    change(other);
    return ComputeFingerprint(*file, other) != own;
  };
  EXPECT_TRUE(differs([](ModelConfig& c) { c.experts.used = 3; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.experts.scale = 2.0f; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.experts.is_normalised = false; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.experts.gating = ExpertGating::kSigmoid; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.is_unrotated[1] = true; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.query_scale = 0.1f; }));
}

}  // namespace
}  // namespace kvd
