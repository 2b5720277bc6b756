// Tests the buckets of relative positions, and the tables of biases by distance that are computed
// from the buckets.
#include "engine/model/position_bias.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvd {
namespace {

TEST(PositionBiasTest, ADecoderHasHalfItsBucketsForSingleDistances) {
  for (std::int32_t distance = 0; distance < 16; ++distance) {
    EXPECT_EQ(RelativeBucket(-distance, 32, false), static_cast<std::uint32_t>(distance));
  }
  // From distance 16 on, the bucket is 16 + 16 * ln(distance / 16) / ln(128 / 16), as in the
  // training of T5.
  EXPECT_EQ(RelativeBucket(-16, 32, false), 16u);
  EXPECT_EQ(RelativeBucket(-18, 32, false), 16u);
  EXPECT_EQ(RelativeBucket(-19, 32, false), 17u);
  EXPECT_EQ(RelativeBucket(-64, 32, false), 26u);
  EXPECT_EQ(RelativeBucket(-127, 32, false), 31u);
  EXPECT_EQ(RelativeBucket(-128, 32, false), 31u);
  EXPECT_EQ(RelativeBucket(-100'000, 32, false), 31u);
  // a key after the query gets bucket 0, which a decoder never uses
  EXPECT_EQ(RelativeBucket(5, 32, false), 0u);
}

TEST(PositionBiasTest, AnEncoderHasBucketsForEachSide) {
  for (std::int32_t distance = 0; distance < 8; ++distance) {
    EXPECT_EQ(RelativeBucket(-distance, 32, true), static_cast<std::uint32_t>(distance));
    if (distance > 0) {
      EXPECT_EQ(RelativeBucket(distance, 32, true), static_cast<std::uint32_t>(16 + distance));
    }
  }
  EXPECT_EQ(RelativeBucket(-128, 32, true), 15u);
  EXPECT_EQ(RelativeBucket(128, 32, true), 31u);
  EXPECT_EQ(RelativeBucket(-9000, 32, true), 15u);
}

TEST(PositionBiasTest, BucketsStayInRangeAndAscendForEveryCount) {
  for (const std::uint32_t count : {4u, 5u, 8u, 31u, 32u, 128u, 254u}) {
    for (const bool sees_both_sides : {false, true}) {
      std::uint32_t before = 0;
      for (std::int32_t distance = 0; distance < 300; ++distance) {
        const std::uint32_t bucket = RelativeBucket(-distance, count, sees_both_sides);
        EXPECT_GE(bucket, before);
        EXPECT_LT(bucket, sees_both_sides ? count / 2 : count);
        before = bucket;
        EXPECT_LT(RelativeBucket(distance, count, sees_both_sides), count);
      }
    }
  }
}

TEST(PositionBiasTest, TablesHaveTheBiasOfEachDistanceByHead) {
  std::vector<float> by_bucket(32 * 3);  // [bucket][head]
  for (std::size_t i = 0; i < by_bucket.size(); ++i) by_bucket[i] = static_cast<float>(i);
  const WeightView buckets{.type = kernels::DataType::kF32,
                           .in_features = 3,
                           .out_features = 32,
                           .data = reinterpret_cast<const std::byte*>(by_bucket.data())};
  const PositionBias decoder = DecoderBias(buckets);
  ASSERT_EQ(decoder.distances, kBiasReach + 1);
  ASSERT_EQ(decoder.table.size(), 3 * decoder.distances);
  EXPECT_EQ(decoder.table[2 * decoder.distances + 7], 7 * 3 + 2.0f);
  EXPECT_EQ(decoder.table[1 * decoder.distances + kBiasReach], 31 * 3 + 1.0f);
  const PositionBias encoder = EncoderBias(buckets);
  ASSERT_EQ(encoder.distances, 2 * kBiasReach + 1);
  EXPECT_EQ(encoder.table[kBiasReach], 0.0f);
  EXPECT_EQ(encoder.table[encoder.distances + kBiasReach - 3], 3 * 3 + 1.0f);
  EXPECT_EQ(encoder.table[encoder.distances + kBiasReach + 3], 19 * 3 + 1.0f);
  EXPECT_EQ(encoder.table[0], 15 * 3.0f);
}

}  // namespace
}  // namespace kvd
