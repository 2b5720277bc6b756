// Compares the attention of encoder layers with its formula computed in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/forward/attention/bidirectional_attention.h"

namespace kvd {
namespace {

std::vector<float> Random(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(BidirectionalAttentionTest, EveryQuerySeesEveryKey) {
  constexpr std::size_t kHeads = 3, kDim = 8, kWidth = kHeads * kDim;
  std::mt19937 random(2);
  ThreadPool pool(2);
  std::vector<float> workspaces(2 * 16 * ((BidirectionalWorkspaceFloats(kDim) + 15) / 16));
  const Compute compute{.kernels = kernels::ScalarTable(),
                        .pool = &pool,
                        .exact = true,
                        .workspaces = workspaces.data(),
                        .workspace_floats = workspaces.size() / 2};
  for (const auto& [queries, keys] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {33, 33}, {5, 100}, {64, 31}}) {
    const std::vector<float> q = Random(queries * kWidth, random);
    const std::vector<float> k = Random(keys * kWidth, random);
    const std::vector<float> v = Random(keys * kWidth, random);
    std::vector<float> packed_k(k.size()), packed_v(v.size()), out(q.size());
    PackHeads(k.data(), keys, kHeads, kDim, {.first_row = 0, .row_count = keys}, packed_k.data());
    PackHeads(v.data(), keys, kHeads, kDim, {.first_row = 0, .row_count = keys}, packed_v.data());
    RunBidirectionalAttention(
        compute, {.head_count = kHeads, .head_dim = kDim, .key_count = keys, .scale = 0.5f},
        queries, q.data(), packed_k.data(), packed_v.data(), out.data());
    for (std::size_t query = 0; query < queries; ++query) {
      for (std::size_t head = 0; head < kHeads; ++head) {
        std::vector<double> expected(kDim);
        double sum = 0;
        for (std::size_t key = 0; key < keys; ++key) {
          double score = 0;
          for (std::size_t d = 0; d < kDim; ++d) {
            score += 0.5 * double{q[query * kWidth + head * kDim + d]} *
                     double{k[key * kWidth + head * kDim + d]};
          }
          sum += std::exp(score);
          for (std::size_t d = 0; d < kDim; ++d)
            expected[d] += std::exp(score) * double{v[key * kWidth + head * kDim + d]};
        }
        for (std::size_t d = 0; d < kDim; ++d)
          EXPECT_NEAR(out[query * kWidth + head * kDim + d], expected[d] / sum, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace kvd
