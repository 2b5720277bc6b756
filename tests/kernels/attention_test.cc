#include <limits>
#include <utility>

#include "kernels/scalar/dot.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"
#include "tests/support/test_scale.h"

namespace kvd::kernels {
namespace {

constexpr std::array<std::size_t, 9> kCellCounts = {1, 2, 3, 7, 8, 15, 16, 17, 32};

std::vector<std::uint8_t> Cells(Numbers* numbers, DataType type, std::size_t count,
                                std::size_t dim) {
  std::vector<std::uint8_t> cells;
  for (std::size_t c = 0; c < count; ++c) {
    const std::vector<std::uint8_t> row = numbers->WeightRow(type, dim);
    cells.insert(cells.end(), row.begin(), row.end());
  }
  return cells;
}

class KeyPanelTest : public TableTest {};
class ScoresTest : public TableTest {};
class SoftmaxTest : public TableTest {};
class ValuesTest : public TableTest {};
class MergeTest : public TableTest {};
class AttentionTest : public TableTest {};

constexpr SoftmaxState kNothingSeen = {-std::numeric_limits<float>::infinity(), 0.0f};

// Returns whether a cell of the type can have `dim` elements.
bool IsCellLength(DataType type, std::size_t dim) { return dim % ElementsPerBlock(type) == 0; }

TEST_P(KeyPanelTest, APanelHoldsTheDecodedCellsSideBySide) {
  Numbers numbers(20);
  for (const DataType type : kCellTypes) {
    for (const std::size_t dim : kLengths) {
      if (!IsCellLength(type, dim)) continue;
      for (const std::size_t cells : kCellCounts) {
        const Misaligned<std::uint8_t> k(Cells(&numbers, type, cells, dim),
                                         type == DataType::kF32 ? 4 : 2);
        std::vector<float> panel(KeyPanelFloats(dim), 77.0f), decoded(dim);
        table_->key_panel(type, k.get(), cells, dim, panel.data());
        for (std::size_t c = 0; c < kRunCells; ++c) {
          if (c < cells) {
            scalar_->decode_row(type, k.get() + c * RowBytes(type, dim), decoded.data(), dim);
          } else if (c == cells) {
            std::fill(decoded.begin(), decoded.end(), c % 16 == 0 ? 77.0f : 0.0f);
          } else if (c % 16 == 0) {
            std::fill(decoded.begin(), decoded.end(), 77.0f);
          }
          for (std::size_t d = 0; d < dim; ++d) {
            ASSERT_EQ(BitsOf(panel[d * kRunCells + c]), BitsOf(decoded[d]))
                << DataTypeName(type) << " dim " << dim << " cells " << cells << " cell " << c
                << " element " << d;
          }
        }
      }
    }
  }
}

TEST_P(ScoresTest, GiveTheScalarBits) {
  Numbers numbers(21);
  for (const std::size_t dim : kLengths) {
    const std::vector<float> panel = numbers.Row(KeyPanelFloats(dim));
    for (const std::size_t cells : kCellCounts) {
      for (const std::size_t rows : {0u, 1u, 2u, 3u, 5u, 6u, 7u, 8u, 14u, 33u}) {
        const std::size_t q_stride = dim + 5, score_stride = cells + 2;
        const Misaligned<float> q(numbers.Row(rows * q_stride), 4);
        std::vector<float> expected(rows * score_stride, 77.0f), actual = expected;
        scalar_->scores(panel.data(), cells, dim, q.get(), q_stride, rows, 0.125f, expected.data(),
                        score_stride);
        table_->scores(panel.data(), cells, dim, q.get(), q_stride, rows, 0.125f, actual.data(),
                       score_stride);
        ASSERT_TRUE(SameBits(expected, actual))
            << " dim " << dim << " cells " << cells << " rows " << rows;
      }
    }
  }
}

TEST_P(ScoresTest, AreScaledDotProducts) {
  Numbers numbers(22);
  const std::size_t dim = 96, cells = 9, rows = 3;
  for (const DataType type : kCellTypes) {
    const std::vector<std::uint8_t> k = Cells(&numbers, type, cells, dim);
    const std::vector<float> q = numbers.Row(rows * dim);
    std::vector<float> panel(KeyPanelFloats(dim)), scores(rows * cells);
    table_->key_panel(type, k.data(), cells, dim, panel.data());
    table_->scores(panel.data(), cells, dim, q.data(), dim, rows, 0.3f, scores.data(), cells);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cells; ++c) {
        double sum = 0, magnitude = 0;
        for (std::size_t j = 0; j < dim; ++j) {
          const double term =
              q[r * dim + j] * NaiveElement(type, k.data() + c * RowBytes(type, dim), j);
          sum += term;
          magnitude += std::fabs(term);
        }
        ASSERT_NEAR(scores[r * cells + c], 0.3 * sum, 1e-6 * magnitude);
      }
    }
  }
}

TEST_P(SoftmaxTest, GivesTheScalarBits) {
  Numbers numbers(23);
  for (int repetition = 0; repetition < test::Scaled(300); ++repetition) {
    for (const std::size_t cells : kCellCounts) {
      const std::size_t rows = static_cast<std::size_t>(repetition) % 4, stride = cells + 3;
      std::vector<float> expected = numbers.Row(rows * stride);
      const float spread = repetition % 3 == 0 ? 1.0f : repetition % 3 == 1 ? 30.0f : 1000.0f;
      for (float& score : expected) score *= spread;
      std::vector<float> actual = expected;
      std::vector<SoftmaxState> expected_states(rows, kNothingSeen);
      for (std::size_t r = repetition % 2 == 1 ? 0 : 1; r < rows; ++r) {
        expected_states[r] = {spread * numbers.Next(), 1.0f + std::fabs(numbers.Next())};
      }
      std::vector<SoftmaxState> actual_states = expected_states;
      std::vector<float> expected_rescales(rows), actual_rescales(rows);
      scalar_->softmax_rows(expected.data(), stride, rows, cells, expected_states.data(),
                            expected_rescales.data());
      table_->softmax_rows(actual.data(), stride, rows, cells, actual_states.data(),
                           actual_rescales.data());
      ASSERT_TRUE(SameBits(expected, actual)) << cells;
      ASSERT_TRUE(SameBits(expected_rescales, actual_rescales)) << cells;
      for (std::size_t r = 0; r < rows; ++r) {
        ASSERT_EQ(BitsOf(expected_states[r].max), BitsOf(actual_states[r].max));
        ASSERT_EQ(BitsOf(expected_states[r].sum), BitsOf(actual_states[r].sum));
      }
    }
  }
}

TEST_P(SoftmaxTest, TheFirstRescalingIsZeroAndOneWhileTheMaximumStays) {
  SoftmaxState state = kNothingSeen;
  float rescale = 7.0f;
  const auto run = [&](std::vector<float> scores) {
    table_->softmax_rows(scores.data(), scores.size(), 1, scores.size(), &state, &rescale);
    return scores;
  };
  EXPECT_EQ(run({1.0f, 3.0f, 2.0f})[1], 1.0f);
  EXPECT_EQ(rescale, 0.0f);
  EXPECT_EQ(state.max, 3.0f);
  run({3.0f, -100.0f});
  EXPECT_EQ(rescale, 1.0f);
  run({4.0f});
  EXPECT_NEAR(rescale, std::exp(-1.0), 1e-7);
  EXPECT_EQ(state.max, 4.0f);
}

TEST_P(ValuesTest, GiveTheScalarBits) {
  Numbers numbers(24);
  for (const DataType type : kCellTypes) {
    for (const std::size_t dim : kLengths) {
      if (!IsCellLength(type, dim)) continue;
      for (const std::size_t cells : {1u, 7u, 32u}) {
        // With seven cells, a value is the beginning of a longer row.
        const std::size_t width = cells == 7 ? dim + ElementsPerBlock(type) : dim;
        const std::size_t stride = RowBytes(type, width);
        const Misaligned<std::uint8_t> v(Cells(&numbers, type, cells, width),
                                         type == DataType::kF32 ? 4 : 2);
        for (const std::size_t rows : {0u, 1u, 2u, 3u, 5u, 6u, 7u, 8u, 9u, 19u}) {
          const std::size_t p_stride = cells + 1, value_stride = dim + 3;
          const Misaligned<float> p(numbers.Row(rows * p_stride), 4);
          std::vector<float> rescales = numbers.Row(rows);
          for (std::size_t r = 0; r < rows; r += 3) rescales[r] = r % 2 == 0 ? 1.0f : 0.0f;
          for (const float* factors :
               {static_cast<const float*>(nullptr), std::as_const(rescales).data()}) {
            std::vector<float> expected = numbers.Row(rows * value_stride), actual = expected;
            scalar_->add_values(type, v.get(), stride, cells, dim, p.get(), p_stride, factors, rows,
                                expected.data(), value_stride);
            table_->add_values(type, v.get(), stride, cells, dim, p.get(), p_stride, factors, rows,
                               actual.data(), value_stride);
            ASSERT_TRUE(SameBits(expected, actual))
                << DataTypeName(type) << " dim " << dim << " cells " << cells << " rows " << rows
                << (factors == nullptr ? " not rescaled" : "");
          }
        }
      }
    }
  }
}

TEST_P(MergeTest, GivesTheScalarBits) {
  Numbers numbers(26);
  for (const std::size_t dim : kLengths) {
    for (int repetition = 0; repetition < 12; ++repetition) {
      const auto state = [&](bool seen) -> SoftmaxState {
        return seen ? SoftmaxState{10.0f * numbers.Next(), 1.0f + std::fabs(numbers.Next())}
                    : kNothingSeen;
      };
      const SoftmaxState other = state(repetition % 4 != 3);
      SoftmaxState expected_state = state(repetition % 4 != 2);
      if (repetition == 1) expected_state.max = other.max;
      SoftmaxState actual_state = expected_state;
      const std::vector<float> other_values = numbers.Row(dim);
      std::vector<float> expected = numbers.Row(dim), actual = expected;
      scalar_->merge_softmax(other, other_values.data(), dim, &expected_state, expected.data());
      table_->merge_softmax(other, other_values.data(), dim, &actual_state, actual.data());
      ASSERT_TRUE(SameBits(expected, actual)) << dim;
      ASSERT_EQ(BitsOf(expected_state.max), BitsOf(actual_state.max));
      ASSERT_EQ(BitsOf(expected_state.sum), BitsOf(actual_state.sum));
    }
  }
}

TEST_P(MergeTest, AnEmptyPartChangesNoSum) {
  const SoftmaxState seen = {2.0f, 3.0f};
  const std::vector<float> nothing(5, std::numeric_limits<float>::quiet_NaN()), something(5, 4.0f);
  SoftmaxState state = seen;
  std::vector<float> values = something;
  table_->merge_softmax(kNothingSeen, nothing.data(), 5, &state, values.data());
  EXPECT_EQ(values, something);
  EXPECT_EQ(state.sum, 3.0f);
  state = kNothingSeen;
  values = nothing;
  table_->merge_softmax(seen, something.data(), 5, &state, values.data());
  EXPECT_EQ(values, something);
  EXPECT_EQ(state.max, 2.0f);
  EXPECT_EQ(state.sum, 3.0f);
}

// Attention computed run by run in several parts, whose results are merged, equals the softmax over
// all cells.
TEST_P(AttentionTest, AttentionOverPartsEqualsSoftmaxOverAllCells) {
  Numbers numbers(25);
  const std::size_t dim = 64;
  for (const DataType type : kCellTypes) {
    for (const std::size_t depth : {1u, 31u, 32u, 33u, 100u, 257u}) {
      const std::vector<std::uint8_t> k = Cells(&numbers, type, depth, dim),
                                      v = Cells(&numbers, type, depth, dim);
      const std::vector<float> q = numbers.Row(dim);
      const float scale = 0.125f;
      std::vector<float> panel(KeyPanelFloats(dim)), scores(kRunCells), values(dim);
      SoftmaxState state = kNothingSeen;
      for (std::size_t part = 0; part < depth; part += 2 * kRunCells) {
        SoftmaxState part_state = kNothingSeen;
        std::vector<float> part_values(dim);
        const std::size_t end = std::min<std::size_t>(depth, part + 2 * kRunCells);
        for (std::size_t c = part; c < end; c += kRunCells) {
          const std::size_t count = std::min(kRunCells, end - c), at = c * RowBytes(type, dim);
          float rescale = 0.0f;
          table_->key_panel(type, k.data() + at, count, dim, panel.data());
          table_->scores(panel.data(), count, dim, q.data(), dim, 1, scale, scores.data(), 32);
          table_->softmax_rows(scores.data(), 32, 1, count, &part_state, &rescale);
          table_->add_values(type, v.data() + at, RowBytes(type, dim), count, dim, scores.data(),
                             32, &rescale, 1, part_values.data(), dim);
        }
        table_->merge_softmax(part_state, part_values.data(), dim, &state, values.data());
      }
      std::vector<double> expected(dim);
      double sum = 0;
      for (std::size_t c = 0; c < depth; ++c) {
        double score = 0;
        for (std::size_t j = 0; j < dim; ++j) {
          score += q[j] * NaiveElement(type, k.data() + c * RowBytes(type, dim), j);
        }
        const double e = std::exp(scale * score);
        sum += e;
        for (std::size_t j = 0; j < dim; ++j) {
          expected[j] += e * NaiveElement(type, v.data() + c * RowBytes(type, dim), j);
        }
      }
      for (std::size_t j = 0; j < dim; ++j) {
        ASSERT_NEAR(values[j] / state.sum, expected[j] / sum, 2e-5)
            << DataTypeName(type) << " depth " << depth;
      }
    }
  }
}

TEST_P(SoftmaxTest, ExpIsWithinOneUlpOfTheTruth) {
  // With a maximum of 0, softmax_rows replaces each score by Exp(score).
  const std::uint32_t stride = 40009 / static_cast<std::uint32_t>(std::min(4000, test::Scaled(10)));
  double worst = 0;
  for (std::uint32_t bits = BitsOf(-0.0f); bits < BitsOf(-110.0f);) {
    std::vector<float> inputs(32), outputs(32);
    for (float& input : inputs) {
      input = std::bit_cast<float>(bits);
      bits += stride;
    }
    outputs = inputs;
    SoftmaxState state = {0.0f, 0.0f};
    float rescale = 0.0f;
    table_->softmax_rows(outputs.data(), 32, 1, 32, &state, &rescale);
    for (std::size_t i = 0; i < 32; ++i) {
      const double truth = std::exp(double{inputs[i]});
      const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(truth) - 23));
      worst = std::max(worst, std::fabs(outputs[i] - truth) / ulp);
    }
  }
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

KVD_FOR_EVERY_TABLE(KeyPanelTest);
KVD_FOR_EVERY_TABLE(ScoresTest);
KVD_FOR_EVERY_TABLE(SoftmaxTest);
KVD_FOR_EVERY_TABLE(ValuesTest);
KVD_FOR_EVERY_TABLE(MergeTest);
KVD_FOR_EVERY_TABLE(AttentionTest);

TEST(ExpTest, IsWithinOneUlpOverAllFloats) {
  const std::uint32_t stride = 4001 / static_cast<std::uint32_t>(std::min(4000, test::Scaled(10)));
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (std::uint32_t bits = 0; bits < BitsOf(88.72f); bits += stride) {
      const float x = std::bit_cast<float>(bits | sign);
      const double truth = std::exp(double{x});
      const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(truth) - 23));
      ASSERT_LE(std::fabs(scalar::Exp(x) - truth), ulp) << x;
    }
  }
}

TEST(ExpTest, IsExactAtTheEndsOfTheRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(BitsOf(scalar::Exp(0.0f)), BitsOf(1.0f));
  EXPECT_EQ(BitsOf(scalar::Exp(-0.0f)), BitsOf(1.0f));
  for (const float x : {-infinity, -1e30f, -1000.0f, -104.0f})
    EXPECT_EQ(BitsOf(scalar::Exp(x)), 0u) << x;
  for (const float x : {infinity, 1e30f, 89.0f, 88.8f}) EXPECT_EQ(scalar::Exp(x), infinity) << x;
  EXPECT_TRUE(std::isfinite(scalar::Exp(88.72f)));
  EXPECT_GT(scalar::Exp(-103.0f), 0.0f);  // a subnormal result
  EXPECT_TRUE(std::isnan(scalar::Exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace kvd::kernels
