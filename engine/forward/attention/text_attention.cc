#include "engine/forward/attention/text_attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kvd {

// ---- text attention
// A unit of work is a tile of queries of one head. The worker's workspace holds queries and values
// [kTileQueries, head_dim], scores [kTileQueries, kRunKeys], and the panel of a run's keys.
//
// The keys that a query sees are a range, and both ends of the range rise with the query's
// position. Of a tile, the queries that see a key of a run are therefore consecutive.

namespace {

constexpr std::size_t kTileQueries = 64;
constexpr std::size_t kRunKeys = kernels::kRunCells;

// Keys [first, end) of a text or, relative to its first key, of a run.
struct KeyRange {
  std::size_t first = 0;
  std::size_t end = 0;
  bool operator==(const KeyRange&) const = default;
};

KeyRange SeenBy(const TextAttentionShape& shape, std::size_t position) {
  const std::size_t first = position - std::min(position, shape.reach_before);
  const std::size_t after = shape.key_count - std::min(shape.key_count, position + 1);
  return {first, shape.key_count - (after - std::min(after, shape.reach_after))};
}

class Tile {
 public:
  Tile(const Compute& compute, const TextAttentionShape& shape, float* workspace)
      : kernels_(*compute.kernels),
        shape_(shape),
        queries_(workspace),
        values_(queries_ + kTileQueries * shape.head_dim),
        scores_(values_ + kTileQueries * shape.head_dim),
        panel_(scores_ + kTileQueries * kRunKeys) {}

  // Computes queries [first, first + count) of a head.
  void Run(std::size_t head, std::size_t first, std::size_t count, const float* q, const float* k,
           const float* v, float* out) {
    const std::size_t dim = shape_.head_dim;
    const std::size_t row_floats = shape_.head_count * dim;
    const std::size_t kv_head = head / (shape_.head_count / shape_.kv_head_count);
    const std::size_t kv_at = kv_head * shape_.key_count * dim;
    head_ = head;
    first_position_ = shape_.first_query + first;
    count_ = count;
    states_.fill({.max = -std::numeric_limits<float>::infinity(), .sum = 0.0f});
    std::fill_n(values_, count * dim, 0.0f);
    for (std::size_t i = 0; i < count; ++i) {
      seen_[i] = SeenBy(shape_, first_position_ + i);
      std::memcpy(queries_ + i * dim, q + (first + i) * row_floats + head * dim,
                  dim * sizeof(float));
    }
    const std::size_t end = seen_[count - 1].end;
    for (std::size_t key = seen_[0].first / kRunKeys * kRunKeys; key < end; key += kRunKeys) {
      AttendRun(key, k + kv_at, v + kv_at);
    }
    for (std::size_t i = 0; i < count; ++i) {
      kernels_.scale(values_ + i * dim, 1.0f / states_[i].sum, dim,
                     out + (first + i) * row_floats + head * dim);
    }
  }

 private:
  // The keys of the run that starts at `key` which query i sees, relative to `key`.
  KeyRange SeenOf(std::size_t i, std::size_t key, std::size_t keys) const {
    const std::size_t first = std::max(seen_[i].first, key);
    const std::size_t end = std::min(seen_[i].end, key + keys);
    return first < end ? KeyRange{first - key, end - key} : KeyRange{};
  }

  void AttendRun(std::size_t key, const float* k, const float* v) {
    const std::size_t dim = shape_.head_dim;
    const std::size_t keys = std::min(kRunKeys, shape_.key_count - key);
    std::size_t begin = 0, end = count_;
    while (begin < end && SeenOf(begin, key, keys) == KeyRange{}) ++begin;
    while (begin < end && SeenOf(end - 1, key, keys) == KeyRange{}) --end;
    if (begin == end) return;
    kernels_.key_panel(kernels::DataType::kF32, k + key * dim, keys, dim, panel_);
    kernels_.scores(panel_, keys, dim, queries_ + begin * dim, dim, end - begin, shape_.scale,
                    scores_ + begin * kRunKeys, kRunKeys);
    if (!shape_.slopes.empty()) LowerByDistance(key, keys, begin, end);
    for (std::size_t row = begin; row < end;) {
      const KeyRange range = SeenOf(row, key, keys);
      const std::size_t first = row;
      while (row < end && SeenOf(row, key, keys) == range) ++row;
      const std::size_t seen = range.end - range.first;
      float* const scores = scores_ + first * kRunKeys + range.first;
      kernels_.softmax_rows(scores, kRunKeys, row - first, seen, states_.data() + first,
                            rescales_.data());
      kernels_.add_values(kernels::DataType::kF32, v + (key + range.first) * dim,
                          dim * sizeof(float), seen, dim, scores, kRunKeys, rescales_.data(),
                          row - first, values_ + first * dim, dim);
    }
  }

  // Lowers the scores of rows [begin, end) for the keys of the run that starts at `key`.
  void LowerByDistance(std::size_t key, std::size_t keys, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t c = 0; c < keys; ++c) {
        const auto distance = static_cast<float>(static_cast<std::ptrdiff_t>(key + c) -
                                                 static_cast<std::ptrdiff_t>(first_position_ + i));
        scores_[i * kRunKeys + c] -= shape_.slopes[head_] * std::fabs(distance);
      }
    }
  }

  const kernels::KernelTable& kernels_;
  const TextAttentionShape& shape_;
  float* const queries_;
  float* const values_;
  float* const scores_;
  float* const panel_;
  std::size_t head_ = 0;
  std::size_t first_position_ = 0;
  std::size_t count_ = 0;
  std::array<KeyRange, kTileQueries> seen_;
  std::array<float, kTileQueries> rescales_;
  std::array<kernels::SoftmaxState, kTileQueries> states_;
};

}  // namespace

std::vector<float> DistanceSlopes(std::size_t head_count, float bias_max) {
  const std::size_t power = std::bit_floor(head_count);
  std::vector<float> slopes(head_count);
  for (std::size_t head = 0; head < head_count; ++head) {
    const double exponent = head < power ? static_cast<double>(head + 1)
                                         : static_cast<double>(2 * (head - power) + 1) / 2;
    slopes[head] = static_cast<float>(
        std::exp2(-static_cast<double>(bias_max) * exponent / static_cast<double>(power)));
  }
  return slopes;
}

void PackHeads(const float* rows, std::size_t row_count, std::size_t head_count,
               std::size_t head_dim, const PackedRows& where, float* packed) {
  for (std::size_t head = 0; head < head_count; ++head) {
    for (std::size_t row = 0; row < row_count; ++row) {
      std::memcpy(packed + (head * where.row_count + where.first_row + row) * head_dim,
                  rows + (row * head_count + head) * head_dim, head_dim * sizeof(float));
    }
  }
}

std::size_t TextAttentionWorkspaceFloats(std::size_t head_dim) {
  return kTileQueries * (2 * head_dim + kRunKeys) + kernels::KeyPanelFloats(head_dim);
}

void RunTextAttention(const Compute& compute, const TextAttentionShape& shape,
                      std::size_t query_count, const float* q, const float* k, const float* v,
                      float* out) {
  const auto run = [&](std::uint32_t worker, std::size_t unit) {
    const std::size_t first = unit / shape.head_count * kTileQueries;
    Tile tile(compute, shape, compute.workspace(worker));
    tile.Run(unit % shape.head_count, first, std::min(kTileQueries, query_count - first), q, k, v,
             out);
  };
  compute.pool->Run((query_count + kTileQueries - 1) / kTileQueries * shape.head_count, run);
}

// ---- plain text attention
// A unit of work is one head of the text's attention.
void RunPlainTextAttention(const Compute& compute, const PlainTextShape& shape,
                           const PositionBias& bias, const float* q, const float* k, const float* v,
                           float* out) {
  const std::size_t head_dim = shape.head_dim;
  const std::size_t row_floats = shape.head_count * head_dim;
  compute.pool->Run(shape.head_count, [&](std::uint32_t, std::size_t head) {
    HeadKeys keys(*compute.kernels, shape.key_count, shape.key_count, head_dim);
    for (std::size_t i = 0; i < shape.key_count; ++i) {
      const std::size_t at = i * row_floats + head * head_dim;
      std::copy_n(k + at, head_dim, keys.key(i));
      keys.SetValue(i, v + at);
    }
    constexpr auto kReach = static_cast<std::ptrdiff_t>(kBiasReach);
    const float* const middle = bias.table.data() + head * bias.distances + kReach;
    for (std::size_t row = 0; row < shape.row_count; ++row) {
      const auto position = static_cast<std::ptrdiff_t>(shape.first_row + row);
      const auto bias_of = [&](std::size_t i) {
        return middle[std::clamp(static_cast<std::ptrdiff_t>(i) - position, -kReach, kReach)];
      };
      const std::size_t at = row * row_floats + head * head_dim;
      keys.Attend(q + at, shape.key_count, bias_of, out + at);
    }
  });
}

}  // namespace kvd
