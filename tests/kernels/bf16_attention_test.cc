// Compares attention with products in bf16 (Bf16Attention) with the same sums in double precision
// over values rounded to bf16.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/panels.h"
#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels::bf16_attention_test {
namespace {

constexpr std::array<std::size_t, 9> kCellCounts = {1, 2, 3, 7, 15, 16, 17, 31, 32};
constexpr std::array<std::size_t, 8> kRowCounts = {0, 1, 2, 4, 11, 12, 13, 33};
constexpr std::array<std::size_t, 9> kDims = {1, 7, 16, 31, 33, 64, 80, 128, 257};
constexpr SoftmaxState kNothingSeen = {-std::numeric_limits<float>::infinity(), 0.0f};

float Rounded(float value) { return F32FromBF16(BF16FromF32(value)); }

// The tests run for the kernel tables that multiply in bf16. Tests are skipped if the machine lacks
// AVX512_BF16.
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
        kernels_->key_panel(DataType::kF32, k.get(), cells, dim, panel.get());
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

TEST_P(Bf16AttentionTest, SoftmaxCoversTheVisibleColumns) {
  Numbers numbers(32);
  for (const std::size_t rows : {1u, 3u, 4u, 15u, 16u, 17u, 40u}) {
    for (std::size_t first = 0; first < kRunCells; first += 5) {
      for (std::size_t end = first + 1; end <= kRunCells; end += 3) {
        const std::size_t stride = kRunCells + 1;
        std::vector<float> scores = numbers.Row(rows * stride);
        for (float& score : scores) score *= 8.0f;
        for (std::size_t r = 0; r < rows; ++r) {  // columns outside [first, end) may have any value
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

TEST_P(Bf16AttentionTest, SoftmaxOfDistantScoresIsFinite) {
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

TEST_P(Bf16AttentionTest, ScoresThatAreNanGiveSumsThatAreNan) {
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
        // Rows outside the panel's range may have any value. Weights outside the range of the
        // product are zero.
        std::vector<float> v(kRunCells * dim, NAN);
        const std::vector<float> seen = numbers.Row((end - first) * dim);
        std::copy(seen.begin(), seen.end(), v.begin() + static_cast<std::ptrdiff_t>(first * dim));
        const AlignedBytes panel = MakeAlignedBytes(Bf16ValuePanelBytes(dim));
        kernels_->value_panel(DataType::kF32, v.data() + first * dim, dim * sizeof(float), first,
                              end, dim, panel.get());
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

TEST_P(Bf16AttentionTest, PanelsEqualThoseOfDecodedCells) {
  Numbers numbers(34);
  for (const DataType type : kCellTypes) {
    for (const std::size_t dim : {1u, 16u, 31u, 32u, 33u, 64u, 80u, 96u, 128u}) {
      if (dim % ElementsPerBlock(type) != 0) continue;
      for (const std::size_t cells : kCellCounts) {
        const Misaligned<std::uint8_t> rows(numbers.WeightRow(type, cells * dim), 2);
        std::vector<float> decoded(cells * dim);
        table_->decode_row(type, rows.get(), decoded.data(), cells * dim);
        const auto same = [&](std::size_t byte_count, const auto& make) {
          const AlignedBytes a = MakeAlignedBytes(byte_count), b = MakeAlignedBytes(byte_count);
          make(type, static_cast<const void*>(rows.get()), a.get());
          make(DataType::kF32, static_cast<const void*>(decoded.data()), b.get());
          return std::memcmp(a.get(), b.get(), byte_count) == 0;
        };
        EXPECT_TRUE(same(Bf16KeyPanelBytes(dim),
                         [&](DataType of, const void* k, void* panel) {
                           kernels_->key_panel(of, k, cells, dim, panel);
                         }))
            << DataTypeName(type) << " dim " << dim << " cells " << cells;
        for (std::size_t first = 0; first + cells <= kRunCells; first += 3) {
          // A value is a whole row, or its beginning.
          for (const std::size_t value_dim : {dim, dim - ElementsPerBlock(type)}) {
            if (value_dim == 0) continue;
            EXPECT_TRUE(same(Bf16ValuePanelBytes(value_dim),
                             [&](DataType of, const void* v, void* panel) {
                               kernels_->value_panel(of, v, RowBytes(of, dim), first, first + cells,
                                                     value_dim, panel);
                             }))
                << DataTypeName(type) << " dim " << value_dim << " of " << dim << " cells " << first
                << " on, " << cells;
          }
        }
      }
    }
  }
}

TEST_P(Bf16AttentionTest, ARowHasTheSameBitsWithAnyRowsAndAnyCellsBesideIt) {
  constexpr std::size_t kRows = 41;
  Numbers numbers(35);
  for (const std::size_t dim : {16u, 33u, 64u, 80u, 128u}) {
    const std::vector<float> k = numbers.Row(kRunCells * dim), v = numbers.Row(kRunCells * dim);
    const std::vector<float> q = numbers.Row(kRows * dim), old = numbers.Row(kRows * dim);
    const AlignedBytes rounded = MakeAlignedBytes(kRows * Bf16RowBytes(dim));
    table_->round_rows(q.data(), dim, kRows, dim, rounded.get());
    // Returns the values and softmax states of rows [row, row + count). The panel that the rows
    // read contains the first `cells` cells, of which the rows attend to [first, end).
    const auto attend = [&](std::size_t row, std::size_t count, std::size_t cells,
                            std::size_t first, std::size_t end) {
      const AlignedBytes keys = MakeAlignedBytes(Bf16KeyPanelBytes(dim));
      const AlignedBytes panel = MakeAlignedBytes(Bf16ValuePanelBytes(dim));
      kernels_->key_panel(DataType::kF32, k.data(), cells, dim, keys.get());
      kernels_->value_panel(DataType::kF32, v.data(), dim * sizeof(float), 0, cells, dim,
                            panel.get());
      std::vector<float> scores(count * kRunCells), rescales(count);
      std::vector<SoftmaxState> states(count, SoftmaxState{0.25f, 1.5f});
      std::vector<std::uint16_t> p(count * kRunCells);
      std::vector<float> values(old.begin() + static_cast<std::ptrdiff_t>(row * dim),
                                old.begin() + static_cast<std::ptrdiff_t>((row + count) * dim));
      kernels_->scores(keys.get(), cells, dim, rounded.get() + row * Bf16RowBytes(dim), count, 0.4f,
                       scores.data(), kRunCells);
      kernels_->softmax_rows(scores.data(), kRunCells, count, first, end, states.data(),
                             rescales.data(), p.data());
      kernels_->add_values(panel.get(), first, end, dim, p.data(), rescales.data(), count,
                           values.data(), dim);
      for (float& value : values) value += 0.0f;  // cells outside [first, end) may change -0 to +0
      for (const SoftmaxState& state : states) values.insert(values.end(), {state.max, state.sum});
      return values;
    };
    for (const std::size_t end : kCellCounts) {
      for (std::size_t first = 0; first < end; first += 5) {
        const std::vector<float> all = attend(0, kRows, kRunCells, first, end);
        for (const std::size_t count : {1u, 2u, 3u, 5u, 8u, 13u}) {
          const std::size_t row = numbers.Bits() % (kRows - count + 1);
          const std::vector<float> alone = attend(row, count, end, first, end);
          const auto at = [&](std::size_t i) {
            return all.begin() + static_cast<std::ptrdiff_t>(i);
          };
          std::vector<float> expected(at(row * dim), at((row + count) * dim));
          expected.insert(expected.end(), at(kRows * dim + 2 * row),
                          at(kRows * dim + 2 * (row + count)));
          ASSERT_TRUE(SameBits(expected, alone))
              << "dim " << dim << " cells " << first << ".." << end << ", " << count << " rows";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, Bf16AttentionTest, ::testing::Values("avx512", "amx"),
                         [](const auto& table) { return std::string(table.param); });

}  // namespace
}  // namespace kvd::kernels::bf16_attention_test
