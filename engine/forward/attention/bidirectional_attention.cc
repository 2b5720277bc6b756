// A unit of work is a tile of queries of one head. The worker's workspace holds queries and values
// [kTileQueries, head_dim], scores [kTileQueries, kRunKeys], and the panel of a run's keys.
#include "engine/forward/attention/bidirectional_attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace kvd {
namespace {

constexpr std::size_t kTileQueries = 64;
constexpr std::size_t kRunKeys = kernels::kRunCells;

}  // namespace

void PackHeads(const float* rows, std::size_t row_count, std::size_t head_count,
               std::size_t head_dim, const PackedRows& where, float* packed) {
  for (std::size_t head = 0; head < head_count; ++head) {
    for (std::size_t row = 0; row < row_count; ++row) {
      std::memcpy(packed + (head * where.row_count + where.first_row + row) * head_dim,
                  rows + (row * head_count + head) * head_dim, head_dim * sizeof(float));
    }
  }
}

std::size_t BidirectionalWorkspaceFloats(std::size_t head_dim) {
  return kTileQueries * (2 * head_dim + kRunKeys) + kernels::KeyPanelFloats(head_dim);
}

void RunBidirectionalAttention(const Compute& compute, const BidirectionalShape& shape,
                               std::size_t query_count, const float* q, const float* k,
                               const float* v, float* out) {
  const kernels::KernelTable& kernels = *compute.kernels;
  const std::size_t dim = shape.head_dim;
  const std::size_t row_floats = shape.head_count * dim;
  const auto run = [&](std::uint32_t worker, std::size_t unit) {
    const std::size_t head = unit % shape.head_count;
    const std::size_t first = unit / shape.head_count * kTileQueries;
    const std::size_t count = std::min(kTileQueries, query_count - first);
    float* const queries = compute.workspace(worker);
    float* const values = queries + kTileQueries * dim;
    float* const scores = values + kTileQueries * dim;
    float* const panel = scores + kTileQueries * kRunKeys;
    std::array<float, kTileQueries> rescales;
    std::array<kernels::SoftmaxState, kTileQueries> states;
    states.fill({.max = -std::numeric_limits<float>::infinity(), .sum = 0.0f});
    std::fill_n(values, count * dim, 0.0f);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(queries + i * dim, q + (first + i) * row_floats + head * dim,
                  dim * sizeof(float));
    }
    for (std::size_t key = 0; key < shape.key_count; key += kRunKeys) {
      const std::size_t keys = std::min(kRunKeys, shape.key_count - key);
      const std::size_t at = (head * shape.key_count + key) * dim;
      kernels.key_panel(kernels::DataType::kF32, k + at, keys, dim, panel);
      kernels.scores(panel, keys, dim, queries, dim, count, shape.scale, scores, kRunKeys);
      kernels.softmax_rows(scores, kRunKeys, count, keys, states.data(), rescales.data());
      kernels.add_values(kernels::DataType::kF32, v + at, dim * sizeof(float), keys, dim, scores,
                         kRunKeys, rescales.data(), count, values, dim);
    }
    for (std::size_t i = 0; i < count; ++i) {
      kernels.scale(values + i * dim, 1.0f / states[i].sum, dim,
                    out + (first + i) * row_floats + head * dim);
    }
  };
  compute.pool->Run((query_count + kTileQueries - 1) / kTileQueries * shape.head_count, run);
}

}  // namespace kvd
