// A bias that depends on the distance between query and key and is added to attention scores, in
// models that do not rotate keys. The bias is learned for each small distance and for ranges of
// larger distances (Raffel et al. 2020, section 2.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/weight_view.h"

namespace kvd {

// All distances of kBiasReach and more share one bucket.
inline constexpr std::size_t kBiasReach = 128;

struct PositionBias {
  // [head_count, distances]. In a decoder's table, column d is distance d = query - key, 0 to
  // kBiasReach; the last column also serves all larger distances. In an encoder's table, column
  // kBiasReach + d is distance d = key - query, -kBiasReach to kBiasReach.
  std::vector<float> table;
  std::size_t distances = 0;  // 0: no bias
};

// The bucket of a distance, 0 to bucket_count - 1. If sees_both_sides, half of the buckets are for
// keys after the query; otherwise all keys after the query share the bucket of distance 0. Of the
// buckets of one side, the first half are for single distances, and the other buckets are for
// ranges of distances, whose lengths grow exponentially up to kBiasReach. The f32 operations are
// those of llama.cpp (llama_relative_position_bucket), so that the ranges have the same limits.
// REQUIRES: ModelConfig::kBiasBucketsMin <= bucket_count <= kBiasBucketsMax.
std::uint32_t RelativeBucket(std::int32_t key_minus_query, std::uint32_t bucket_count,
                             bool sees_both_sides);

// Tables by distance from `buckets`, the learned biases by bucket: [bucket_count, head_count].
PositionBias DecoderBias(const WeightView& buckets);
PositionBias EncoderBias(const WeightView& buckets);

}  // namespace kvd
