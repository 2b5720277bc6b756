// Attention with products of bf16 (Bf16Attention) against sums in double of what was rounded to bf16.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/bf16_panel.h"
#include "kernels/half.h"
#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels {
namespace {

constexpr std::array<std::size_t, 9> kCellCounts = {1, 2, 3, 7, 15, 16, 17, 31, 32};
constexpr std::array<std::size_t, 8> kRowCounts = {0, 1, 2, 4, 11, 12, 13, 33};
constexpr std::array<std::size_t, 9> kDims = {1, 7, 16, 31, 33, 64, 80, 128, 257};
constexpr SoftmaxState kNothingSeen = {-std::numeric_limits<float>::infinity(), 0.0f};

float Rounded(float value) { return F32FromBF16(BF16FromF32(value)); }

// Of the tables that multiply in bf16 where the machine does.
class Bf16AttentionTest : public TableTest {
 protected:
  void SetUp() override {
    TableTest::SetUp();
    if (table_ == nullptr) return;
    if (table_->bf16_attention == nullptr) GTEST_SKIP() << "the machine lacks AVX512_BF16";
    kernels_ = table_->bf16_attention;
  }
  const Bf16Attention* kernels_ = nullptr;
};

TEST_P(Bf16AttentionTest, ScoresAreScaledProductsOfRoundedRows) {
  Numbers numbers(31);
  for (const std::size_t dim : kDims) {
    for (const std::size_t cells : kCellCounts) {
      for (const std::size_t rows : kRowCounts) {
        const Misaligned<float> k(numbers.Row(cells * dim), 4), q(numbers.Row(rows * dim), 4);
        const AlignedBytes panel = MakeAlignedBytes(Bf16KeyPanelBytes(dim));
        const AlignedBytes rounded = MakeAlignedBytes(rows * Bf16RowBytes(dim));
        const std::size_t stride = cells + 3;
        std::vector<float> scores(rows * stride, 77.0f);
        kernels_->key_panel(k.get(), cells, dim, panel.get());
        table_->round_rows(q.get(), dim, rows, dim, rounded.get());
        kernels_->scores(panel.get(), cells, dim, rounded.get(), rows, 0.3f, scores.data(), stride);
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t c = 0; c < stride; ++c) {
            const float score = scores[r * stride + c];
            if (c >= cells) {
              ASSERT_EQ(score, 77.0f);
              continue;
            }
            double sum = 0, magnitude = 0;
            for (std::size_t d = 0; d < dim; ++d) {
              const double term =
                  double{Rounded(q.get()[r * dim + d])} * Rounded(k.get()[c * dim + d]);
              sum += term;
              magnitude += std::fabs(term);
            }
            ASSERT_NEAR(score, 0.3 * sum, 1e-6 * magnitude + 1e-30)
                << "dim " << dim << " cells " << cells << " row " << r << " cell " << c;
          }
        }
      }
    }
  }
}

TEST_P(Bf16AttentionTest, SoftmaxIsThatOfTheColumnsInSight) {
  Numbers numbers(32);
  for (const std::size_t rows : {1u, 3u, 4u, 15u, 16u, 17u, 40u}) {
    for (std::size_t first = 0; first < kRunCells; first += 5) {
      for (std::size_t end = first + 1; end <= kRunCells; end += 3) {
        const std::size_t stride = kRunCells + 1;
        std::vector<float> scores = numbers.Row(rows * stride);
        for (float& score : scores) score *= 8.0f;
        for (std::size_t r = 0; r < rows; ++r) {  // what is out of sight may be anything
          for (std::size_t c = 0; c < stride; ++c) {
            if (c < first || c >= end) scores[r * stride + c] = r % 2 == 0 ? NAN : 1e30f;
          }
        }
        std::vector<SoftmaxState> states(rows, kNothingSeen);
        for (std::size_t r = 1; r < rows; r += 2) {
          states[r] = {8.0f * numbers.Next(), 1.0f + std::fabs(numbers.Next())};
        }
        const std::vector<SoftmaxState> before = states;
        std::vector<float> rescales(rows, 77.0f);
        std::vector<std::uint16_t> p(rows * kRunCells, 0x7fff);
        kernels_->softmax_rows(scores.data(), stride, rows, first, end, states.data(),
                               rescales.data(), p.data());
        for (std::size_t r = 0; r < rows; ++r) {
          float max = before[r].max;
          for (std::size_t c = first; c < end; ++c) max = std::max(max, scores[r * stride + c]);
          ASSERT_EQ(states[r].max, max);
          const double rescale = std::exp(double{before[r].max} - max);
          ASSERT_NEAR(rescales[r], rescale, 1e-6);
          double sum = before[r].sum * rescale;
          for (std::size_t c = 0; c < kRunCells; ++c) {
            const double weight = F32FromBF16(p[r * kRunCells + c]);
            sum += weight;
            if (c < first || c >= end) {
              ASSERT_EQ(weight, 0.0);
            } else {
              const double truth = std::exp(double{scores[r * stride + c]} - max);
              ASSERT_NEAR(weight, truth, truth * 0x1.2p-8 + 1e-37);
            }
          }
          ASSERT_NEAR(states[r].sum, sum, 1e-6 * sum);
        }
      }
    }
  }
}

TEST_P(Bf16AttentionTest, SoftmaxOfFarApartScoresHasNoNumberThatIsNotFinite) {
  std::vector<float> scores(kRunCells, -3e38f);
  scores[5] = 2e38f;
  SoftmaxState state = {-1e38f, 3.0f};
  float rescale = 77.0f;
  std::vector<std::uint16_t> p(kRunCells);
  kernels_->softmax_rows(scores.data(), kRunCells, 1, 0, kRunCells, &state, &rescale, p.data());
  EXPECT_EQ(rescale, 0.0f);
  EXPECT_EQ(state.sum, 1.0f);
  for (std::size_t c = 0; c < kRunCells; ++c) EXPECT_EQ(F32FromBF16(p[c]), c == 5 ? 1.0f : 0.0f);
}

TEST_P(Bf16AttentionTest, ScoresThatAreNoNumbersMakeSumsThatAreNone) {
  std::vector<float> scores(kRunCells, 1.0f);
  scores[20] = NAN;
  SoftmaxState state = kNothingSeen;
  float rescale = 77.0f;
  std::vector<std::uint16_t> p(kRunCells);
  kernels_->softmax_rows(scores.data(), kRunCells, 1, 0, kRunCells, &state, &rescale, p.data());
  EXPECT_TRUE(std::isnan(state.sum));
}

TEST_P(Bf16AttentionTest, ValuesAreSumsOfRoundedRows) {
  Numbers numbers(33);
  for (const std::size_t dim : kDims) {
    for (const std::size_t first : {0u, 1u, 5u, 16u}) {
      for (const std::size_t end : {first + 1, first + 2, first + 15, std::size_t{kRunCells}}) {
        // Rows out of the panel's range may be anything; weights out of the product's are zero.
        std::vector<float> v(kRunCells * dim, NAN);
        const std::vector<float> seen = numbers.Row((end - first) * dim);
        std::copy(seen.begin(), seen.end(), v.begin() + static_cast<std::ptrdiff_t>(first * dim));
        const AlignedBytes panel = MakeAlignedBytes(Bf16ValuePanelBytes(dim));
        kernels_->value_panel(v.data(), first, end, dim, panel.get());
        for (const std::size_t rows : kRowCounts) {
          const std::size_t from = first + (end - first) / 3, stride = dim + 3;
          std::vector<std::uint16_t> p(rows * kRunCells);
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t c = from; c < end; ++c) {
              p[r * kRunCells + c] = BF16FromF32(std::fabs(numbers.Next()));
            }
          }
          const std::vector<float> rescales = numbers.Row(rows), old = numbers.Row(rows * stride);
          std::vector<float> values = old;
          kernels_->add_values(panel.get(), from, end, dim, p.data(), rescales.data(), rows,
                               values.data(), stride);
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t d = 0; d < stride; ++d) {
              const float before = old[r * stride + d], after = values[r * stride + d];
              if (d >= dim) {
                ASSERT_EQ(after, before);
                continue;
              }
              double sum = double{before} * rescales[r], magnitude = std::fabs(sum);
              for (std::size_t c = from; c < end; ++c) {
                const double term =
                    double{F32FromBF16(p[r * kRunCells + c])} * Rounded(v[c * dim + d]);
                sum += term;
                magnitude += std::fabs(term);
              }
              ASSERT_NEAR(after, sum, 1e-6 * magnitude + 1e-30)
                  << "dim " << dim << " cells " << from << ".." << end << " row " << r;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, Bf16AttentionTest, ::testing::Values("avx512", "amx"),
                         [](const auto& table) { return std::string(table.param); });

}  // namespace
}  // namespace kvd::kernels
