// What is added to attention scores by the distance between query and key, instead of a rotation:
// learnt for single small distances and for ranges of larger ones (Raffel et al. 2020, section 2.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/weight_view.h"

namespace kvd {

// All distances from here on share a bucket.
inline constexpr std::size_t kBiasReach = 128;

struct PositionBias {
  // [head_count, distances]. Of a decoder distance d is query - key, 0 to kBiasReach, which stands
  // for all larger ones; of an encoder column kBiasReach + d is d = key - query, -kBiasReach to
  // kBiasReach.
  std::vector<float> table;
  std::size_t distances = 0;  // 0: no bias
};

// The bucket of key position - query position: of `bucket_count`, half of them for keys behind the
// query if sees_both_sides, else keys behind it share the bucket of distance 0. Half of a side's
// buckets are for single distances, the others grow with the logarithm up to kBiasReach. The steps
// in f32 are those of llama.cpp (llama_relative_position_bucket), so that edges fall alike.
// REQUIRES: ModelConfig::kBiasBucketsMin <= bucket_count <= kBiasBucketsMax.
std::uint32_t RelativeBucket(std::int32_t key_minus_query, std::uint32_t bucket_count,
                             bool sees_both_sides);

// By distance what `buckets` ([bucket_count, head_count]) says by bucket.
PositionBias DecoderBias(const WeightView& buckets);
PositionBias EncoderBias(const WeightView& buckets);

}  // namespace kvd
