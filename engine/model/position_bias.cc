#include "engine/model/position_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/kernel_table.h"

namespace kvd {
namespace {

// Makes a table whose column d is the bias for key position - query position = difference(d).
template <class Difference>
PositionBias Spread(const WeightView& buckets, bool sees_both_sides, std::size_t distances,
                    const Difference& difference) {
  const std::size_t head_count = buckets.in_features;
  PositionBias bias{.table = std::vector<float>(head_count * distances), .distances = distances};
  std::vector<float> by_head(head_count);
  const std::size_t row_bytes = kernels::RowBytes(buckets.type, head_count);
  for (std::size_t d = 0; d < distances; ++d) {
    const std::uint32_t bucket = RelativeBucket(
        difference(d), static_cast<std::uint32_t>(buckets.out_features), sees_both_sides);
    kernels::ScalarTable()->decode_row(buckets.type, buckets.data + bucket * row_bytes,
                                       by_head.data(), head_count);
    for (std::size_t head = 0; head < head_count; ++head) {
      bias.table[head * distances + d] = by_head[head];
    }
  }
  return bias;
}

}  // namespace

std::uint32_t RelativeBucket(std::int32_t key_minus_query, std::uint32_t bucket_count,
                             bool sees_both_sides) {
  const std::uint32_t side = sees_both_sides ? bucket_count / 2 : bucket_count;
  const std::uint32_t exact = side / 2;
  const std::uint32_t first = sees_both_sides && key_minus_query > 0 ? side : 0;
  const std::uint32_t distance = static_cast<std::uint32_t>(
      sees_both_sides ? std::abs(key_minus_query) : -std::min(key_minus_query, 0));
  if (distance < exact) return first + distance;
  // exact + (side - exact) * ln(distance / exact) / ln(kBiasReach / exact), rounded down
  const double logarithm =
      std::log(static_cast<float>(static_cast<double>(distance) / static_cast<double>(exact)));
  const double whole = std::log(static_cast<double>(kBiasReach) / static_cast<double>(exact));
  const float range = std::floor(static_cast<float>(
      static_cast<double>(exact) +
      static_cast<double>(static_cast<float>(logarithm) * static_cast<float>(side - exact)) /
          whole));
  return first + std::min(static_cast<std::uint32_t>(range), side - 1);
}

PositionBias DecoderBias(const WeightView& buckets) {
  return Spread(buckets, false, kBiasReach + 1,
                [](std::size_t d) { return -static_cast<std::int32_t>(d); });
}

PositionBias EncoderBias(const WeightView& buckets) {
  return Spread(buckets, true, 2 * kBiasReach + 1, [](std::size_t d) {
    return static_cast<std::int32_t>(d) - static_cast<std::int32_t>(kBiasReach);
  });
}

}  // namespace kvd
