// Configs and tensors of gemma4: heads of two lengths, shared cells, inputs of layers, experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Six layers, of which the last three share the cells of layers 1 (window) and 2.
Metadata Dense() {
  Metadata metadata("gemma4");
  metadata.U32("block_count", 6)
      .U32("attention.key_length", 32)
      .U32("attention.value_length", 32)
      .U32("attention.key_length_swa", 16)
      .U32("attention.value_length_swa", 16)
      .U32("rope.dimension_count", 32)
      .U32("rope.dimension_count_swa", 16)
      .F32("rope.freq_base", 1e6f)
      .U32("attention.sliding_window", 7)
      .Bools("attention.sliding_window_pattern", {true, true, false, true, true, false})
      .U32("attention.shared_kv_layers", 3)
      .U32("embedding_length_per_layer_input", 24);
  return metadata;
}

Metadata Experts() {
  Metadata metadata("gemma4");
  metadata.U32("attention.sliding_window", 7)
      .Bools("attention.sliding_window_pattern", {true, true, false})
      .U32("expert_count", 6)
      .U32("expert_used_count", 2)
      .U32("expert_feed_forward_length", 16);
  return metadata;
}

TEST(Gemma4ConfigTest, LayersHaveHeadsOfTwoLengthsAndShareCells) {
  const auto config = Dense().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->window, ElementsAre(7, 7, 0, 7, 7, 0));
  EXPECT_THAT(config->cell_layer, ElementsAre(0, 1, 2, 1, 1, 2));
  EXPECT_EQ(config->key_dim(0), 16u);
  EXPECT_EQ(config->value_dim(3), 16u);
  EXPECT_EQ(config->key_dim(5), 32u);
  EXPECT_TRUE(config->caches(2));
  EXPECT_FALSE(config->caches(3));
  EXPECT_EQ(config->rope.rotated_dim, 32u);
  EXPECT_EQ(config->rope.freq_base, 1e6f);
  EXPECT_EQ(config->window_rope.rotated_dim, 16u);
  EXPECT_EQ(config->window_rope.freq_base, 10000.0f);
  EXPECT_EQ(config->embedding_scale, 8.0f);
  EXPECT_EQ(config->attention_scale, 1.0f);
  EXPECT_EQ(config->logit_softcap, 0.0f);
  EXPECT_EQ(config->layer_input_size, 24u);
  EXPECT_EQ(Dense().F32("final_logit_softcapping", 30.0f).Read()->logit_softcap, 30.0f);
  EXPECT_EQ(Dense().F32("rope.freq_base_swa", 2e4f).Read()->window_rope.freq_base, 2e4f);
}

TEST(Gemma4ConfigTest, WithoutTheirKeysLayersShareNothingAndHaveTheSameHeads) {
  const auto config = Experts().Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_THAT(config->cell_layer, IsEmpty());
  EXPECT_EQ(config->key_dim(0), config->key_dim(2));
  EXPECT_EQ(config->window_rope.rotated_dim, 16u);
  EXPECT_EQ(config->layer_input_size, 0u);
  EXPECT_THAT(config->has_experts, Each(true));
  EXPECT_EQ(config->experts.size, 16u);
  EXPECT_TRUE(config->experts.is_normalised);
}

TEST(Gemma4ConfigTest, EachWrongNumberIsNamed) {
  ExpectRefused(Dense().Without("gemma4.attention.sliding_window"), Code::kNotFound,
                "gemma4.attention.sliding_window");
  ExpectRefused(Dense().Without("gemma4.attention.sliding_window_pattern"), Code::kNotFound,
                "gemma4.attention.sliding_window_pattern: missing");
  ExpectRefused(Dense().U32("attention.sliding_window", 0), Code::kCorrupt,
                "gemma4.attention.sliding_window: 0, must be 1 to 2147483647");
  ExpectRefused(Dense().Bools("attention.sliding_window_pattern", {true}), Code::kCorrupt,
                "sliding_window_pattern: 1 elements, there are 6 layers");
  ExpectRefused(Dense().U32("attention.key_length_swa", 0), Code::kCorrupt,
                "gemma4.attention.key_length_swa: 0, must be 1 to 8192");
  ExpectRefused(Dense().U32("attention.value_length_swa", 0), Code::kCorrupt,
                "gemma4.attention.value_length_swa: 0, must be 1 to 8192");
  ExpectRefused(Dense().U32("attention.value_length_swa", 8), Code::kUnsupported,
                "gemma4.attention.value_length_swa: 8 differs from the key length 16");
  ExpectRefused(Dense().U32("attention.value_length", 8), Code::kUnsupported,
                "gemma4.attention.value_length: 8 differs from the key length 32");
  ExpectRefused(Dense().U32("rope.dimension_count_swa", 17), Code::kCorrupt,
                "gemma4.rope.dimension_count_swa: 17, must be 1 to 16");
  ExpectRefused(Dense().U32("rope.dimension_count_swa", 15), Code::kCorrupt,
                "gemma4.rope.dimension_count_swa: 15 is odd");
  ExpectRefused(Dense().F32("rope.freq_base_swa", 0.0f), Code::kCorrupt, "rope.freq_base_swa");
  ExpectRefused(Dense().F32("final_logit_softcapping", -1.0f), Code::kCorrupt,
                "gemma4.final_logit_softcapping: -1");
  ExpectRefused(Dense().U32("embedding_length_per_layer_input", 1u << 19), Code::kCorrupt,
                "gemma4.embedding_length_per_layer_input: 524288, must be 0 to 262144");
  ExpectRefused(Dense().Bool("attention.causal", false), Code::kUnsupported, "causal");
  ExpectRefused(Experts().Without("gemma4.expert_feed_forward_length"), Code::kNotFound,
                "gemma4.expert_feed_forward_length");
}

TEST(Gemma4ConfigTest, LayersShareOnlyCellsOfTheirOwnKind) {
  ExpectRefused(Dense().U32("attention.shared_kv_layers", 5), Code::kCorrupt,
                "gemma4.attention.shared_kv_layers: 5, must be 0 to 4");
  ExpectRefused(Experts()
                    .U32("block_count", 1)
                    .Bools("attention.sliding_window_pattern", {true})
                    .U32("attention.shared_kv_layers", 1),
                Code::kCorrupt, "gemma4.attention.shared_kv_layers: 1, must be 0 to 0");
  ExpectRefused(Dense().U32("attention.shared_kv_layers", 4), Code::kCorrupt,
                "gemma4.attention.shared_kv_layers: layer 2 would read the cells of layer 1, but "
                "only one of the two has a window");
  ExpectRefused(Dense().U32s("attention.head_count_kv", {2, 2, 1, 2, 1, 1}), Code::kCorrupt,
                "gemma4.attention.head_count_kv: 1 of layer 4, must be 2, because it reads the "
                "cells of layer 1");
  EXPECT_TRUE(Dense().U32s("attention.head_count_kv", {1, 2, 1, 2, 2, 1}).Read().has_value());
}

// The error of binding the weights of a made model to a config that was changed.
std::string Problem(const ModelShape& shape, void (*change)(ModelConfig&)) {
  const auto file = GgufFile::FromBytes(*MakeModelBytes(shape));
  auto config = *ReadModelConfig(*file);
  change(config);
  const auto weights = BindWeights(*file, config);
  return weights ? "none" : weights.error().message;
}

TEST(Gemma4ConfigTest, EachTensorHasTheShapeOfTheConfig) {
  const ModelShape dense{.architecture = Architecture::kGemma4, .layers = 4};
  EXPECT_EQ(Problem(dense, [](ModelConfig&) {}), "none");
  EXPECT_THAT(Problem(dense, [](ModelConfig& c) { c.window_head_dim = 32; }),
              HasSubstr("tensor blk.0.attn_q.weight: shape"));
  EXPECT_THAT(Problem(dense, [](ModelConfig& c) { c.head_dim_k = 32; }),
              HasSubstr("tensor blk.1.attn_q.weight: shape"));
  EXPECT_THAT(Problem(dense, [](ModelConfig& c) { c.cell_layer.clear(); }),
              HasSubstr("tensor blk.2.attn_k.weight: missing"));
  EXPECT_THAT(Problem(dense, [](ModelConfig& c) { c.layer_input_size = 64; }),
              HasSubstr("tensor per_layer_token_embd.weight: shape"));
  EXPECT_THAT(Problem(dense, [](ModelConfig& c) { c.layer_input_size = 0; }),
              HasSubstr("unknown to this architecture"));
  ModelShape experts{.architecture = Architecture::kGemma4};
  experts.experts = 4;
  EXPECT_EQ(Problem(experts, [](ModelConfig&) {}), "none");
  EXPECT_THAT(Problem(experts, [](ModelConfig& c) { c.has_experts[0] = false; }),
              HasSubstr("unknown to this architecture"));
  EXPECT_THAT(Problem(dense, [](ModelConfig& c) { c.has_experts[0] = true; }),
              HasSubstr("tensor blk.0.ffn_gate_inp.scale: missing"));
}

}  // namespace
}  // namespace kvd
