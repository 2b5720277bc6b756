// Compares the attention of texts with its formula computed in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/forward/attention/text_attention.h"

namespace kvd {
namespace {

constexpr std::size_t kDim = 8;

std::vector<float> Random(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Queries, keys and values, and the attention of consecutive queries to them.
class Text {
 public:
  Text(TextAttentionShape shape, std::size_t query_count)
      : shape_(shape), query_count_(query_count) {
    std::mt19937 random(2);
    q_ = Random(query_count * shape.head_count * kDim, random);
    k_ = Random(shape.key_count * shape.kv_head_count * kDim, random);
    v_ = Random(shape.key_count * shape.kv_head_count * kDim, random);
  }

  // The attention, computed in portions of `portion` queries.
  std::vector<float> Attend(std::size_t portion) {
    ThreadPool pool(2);
    std::vector<float> workspaces(2 * 16 * ((TextAttentionWorkspaceFloats(kDim) + 15) / 16));
    const Compute compute{.kernels = kernels::ScalarTable(),
                          .pool = &pool,
                          .exact = true,
                          .choices = {},
                          .workspaces = workspaces.data(),
                          .workspace_floats = workspaces.size() / 2};
    std::vector<float> k(k_.size()), v(v_.size()), out(q_.size());
    const PackedRows all{.first_row = 0, .row_count = shape_.key_count};
    PackHeads(k_.data(), shape_.key_count, shape_.kv_head_count, kDim, all, k.data());
    PackHeads(v_.data(), shape_.key_count, shape_.kv_head_count, kDim, all, v.data());
    for (std::size_t first = 0; first < query_count_; first += portion) {
      TextAttentionShape shape = shape_;
      shape.first_query += first;
      const std::size_t at = first * shape.head_count * kDim;
      RunTextAttention(compute, shape, std::min(portion, query_count_ - first), q_.data() + at,
                       k.data(), v.data(), out.data() + at);
    }
    return out;
  }

  std::vector<double> Expected() const {
    std::vector<double> expected;
    for (std::size_t query = 0; query < query_count_; ++query) {
      for (std::size_t head = 0; head < shape_.head_count; ++head) {
        for (const double value : ExpectedRow(query, head)) expected.push_back(value);
      }
    }
    return expected;
  }

 private:
  std::vector<double> ExpectedRow(std::size_t query, std::size_t head) const {
    const std::size_t position = shape_.first_query + query;
    const std::size_t kv_head = head * shape_.kv_head_count / shape_.head_count;
    std::vector<double> row(kDim);
    double sum = 0;
    for (std::size_t key = 0; key < shape_.key_count; ++key) {
      if (key < position && position - key > shape_.reach_before) continue;
      if (key > position && key - position > shape_.reach_after) continue;
      const std::size_t at = (key * shape_.kv_head_count + kv_head) * kDim;
      double score = 0;
      for (std::size_t d = 0; d < kDim; ++d) {
        score += double{shape_.scale} * double{k_[at + d]} *
                 double{q_[(query * shape_.head_count + head) * kDim + d]};
      }
      if (!shape_.slopes.empty()) {
        score -= double{shape_.slopes[head]} *
                 std::fabs(static_cast<double>(key) - static_cast<double>(position));
      }
      sum += std::exp(score);
      for (std::size_t d = 0; d < kDim; ++d) row[d] += std::exp(score) * double{v_[at + d]};
    }
    for (double& value : row) value /= sum;
    return row;
  }

  TextAttentionShape shape_;
  std::size_t query_count_;
  std::vector<float> q_, k_, v_;
};

void ExpectFormula(const TextAttentionShape& shape, std::size_t queries) {
  Text text(shape, queries);
  const std::vector<double> expected = text.Expected();
  const std::vector<float> got = text.Attend(queries);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  for (const std::size_t portion : {1u, 7u, 64u}) EXPECT_EQ(text.Attend(portion), got) << portion;
}

TextAttentionShape Shape(std::size_t keys) {
  return {.head_count = 6, .kv_head_count = 6, .head_dim = kDim, .key_count = keys, .scale = 0.5f};
}

TEST(TextAttentionTest, EveryQuerySeesEveryKey) {
  for (const auto& [queries, keys] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {33, 33}, {5, 100}, {64, 64}, {150, 150}}) {
    ExpectFormula(Shape(keys), queries);
  }
}

TEST(TextAttentionTest, HeadsShareKeys) {
  TextAttentionShape shape = Shape(70);
  shape.kv_head_count = 2;
  ExpectFormula(shape, 70);
}

TEST(TextAttentionTest, CausalQueriesSeeKeysUpToTheirOwn) {
  TextAttentionShape shape = Shape(150);
  shape.reach_after = 0;
  ExpectFormula(shape, 150);
}

TEST(TextAttentionTest, WindowedQueriesSeeKeysWithinTheWindow) {
  for (const std::size_t reach : {0u, 3u, 8u, 40u, 200u}) {
    TextAttentionShape shape = Shape(150);
    shape.reach_before = shape.reach_after = reach;
    ExpectFormula(shape, 150);
  }
}

TEST(TextAttentionTest, AlibiScoresFallWithTheDistance) {
  const std::vector<float> slopes = DistanceSlopes(6, 8.0f);
  TextAttentionShape shape = Shape(100);
  shape.slopes = slopes;
  ExpectFormula(shape, 100);
}

TEST(TextAttentionTest, SlopesOfHeadsBeyondAPowerOfTwoLieBetweenTheOthers) {
  EXPECT_EQ(DistanceSlopes(4, 8.0f), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  const std::vector<float> six = DistanceSlopes(6, 8.0f);
  EXPECT_EQ(six[3], 0.00390625f);
  EXPECT_EQ(six[4], 0.5f);
  EXPECT_EQ(six[5], 0.125f);
}

}  // namespace
}  // namespace kvd
