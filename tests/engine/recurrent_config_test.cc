// The numbers of recurrent and hybrid models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model_config.h"
#include "tests/engine/config_metadata.h"

namespace kvd {
namespace {

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

}  // namespace
}  // namespace kvd
