// Configs and tensors of gemma3n.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"
#include "tests/engine/model/config_metadata.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Metadata Gemma3n(std::uint32_t layers) {
  Metadata metadata("gemma3n");
  metadata.U32("block_count", layers)
      .U32("attention.sliding_window", 7)
      .U32("embedding_length_per_layer_input", 32);
  return metadata;
}

TEST(Gemma3nConfigTest, LayersFromTheTwentiethOnShareCells) {
  const auto config = Gemma3n(25).Read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  for (std::uint32_t layer = 0; layer < 20; ++layer) EXPECT_TRUE(config->caches(layer)) << layer;
  for (std::uint32_t layer = 20; layer < 24; ++layer) EXPECT_EQ(config->cells_of(layer), 18u);
  EXPECT_EQ(config->cells_of(24), 19u);
  EXPECT_EQ(config->window[3], 7u);
  EXPECT_EQ(config->window[4], 0u);
  EXPECT_EQ(config->window_rope.freq_base, 10000.0f);
  EXPECT_EQ(config->logit_softcap, 30.0f);
  EXPECT_EQ(config->attention_scale, 1.0f);
  EXPECT_EQ(config->embedding_scale, 8.0f);
  EXPECT_EQ(config->layer_input_size, 32u);
  EXPECT_THAT(Gemma3n(10).Read()->cell_layer, IsEmpty());
  EXPECT_THAT(Gemma3n(7).U32("attention.shared_kv_layers", 2).Read()->cell_layer,
              ElementsAre(0, 1, 2, 3, 4, 3, 3));
}

TEST(Gemma3nConfigTest, EachWrongNumberIsNamed) {
  ExpectRefused(Gemma3n(25).U32("altup.num_inputs", 2), Code::kUnsupported,
                "gemma3n.altup.num_inputs: 2, only 4 is supported");
  ExpectRefused(Gemma3n(25).U32("altup.active_idx", 1), Code::kUnsupported,
                "gemma3n.altup.active_idx: 1, only 0 is supported");
  ExpectRefused(Gemma3n(25).U32("attention.shared_kv_layers", 24), Code::kCorrupt,
                "gemma3n.attention.shared_kv_layers: 24, must be 0 to 23");
  ExpectRefused(Gemma3n(1).U32("attention.shared_kv_layers", 1), Code::kCorrupt,
                "gemma3n.attention.shared_kv_layers: 1, must be 0 to 0");
  ExpectRefused(Gemma3n(25).U32("attention.shared_kv_layers", 6), Code::kCorrupt,
                "gemma3n.attention.shared_kv_layers: layer 19 would read the cells of layer 18");
  ExpectRefused(Gemma3n(25).Without("gemma3n.attention.sliding_window"), Code::kNotFound,
                "gemma3n.attention.sliding_window");
  ExpectRefused(Gemma3n(25).Without("gemma3n.embedding_length_per_layer_input"), Code::kNotFound,
                "gemma3n.embedding_length_per_layer_input");
  ExpectRefused(Gemma3n(25).U32("embedding_length_per_layer_input", 0), Code::kCorrupt,
                "gemma3n.embedding_length_per_layer_input: 0, must be 1 to 262144");
  ExpectRefused(Gemma3n(25).Bool("attention.causal", false), Code::kUnsupported, "causal");
}

TEST(Gemma3nConfigTest, EachTensorHasTheShapeOfTheConfig) {
  const auto file = GgufFile::FromBytes(*MakeModelBytes({.architecture = Architecture::kGemma3n}));
  const auto config = *ReadModelConfig(*file);
  EXPECT_TRUE(BindWeights(*file, config).has_value());
  ModelConfig other = config;
  other.layer_input_size = 32;
  EXPECT_THAT(BindWeights(*file, other).error().message,
              HasSubstr("tensor per_layer_token_embd.weight: shape"));
  other = config;
  other.layer_count -= 1;
  EXPECT_FALSE(BindWeights(*file, other).has_value());
}

}  // namespace
}  // namespace kvd
