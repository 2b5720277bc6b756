#include <limits>

#include "kernels/scalar/dot.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"

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

class ScoresTest : public TableTest {};
class SoftmaxTest : public TableTest {};
class ValuesTest : public TableTest {};
class AttentionTest : public TableTest {};

TEST_P(ScoresTest, GiveTheScalarBits) {
  Numbers numbers(21);
  for (const DataType type : kCellTypes) {
    for (const std::size_t dim : kLengths) {
      if (dim % ElementsPerBlock(type) != 0) continue;
      for (const std::size_t cells : kCellCounts) {
        for (const std::size_t rows : {0u, 1u, 2u, 3u, 5u, 6u, 7u, 14u}) {
          const std::size_t q_stride = dim + 5, score_stride = cells + 2;
          const Misaligned<std::uint8_t> k(Cells(&numbers, type, cells, dim),
                                           type == DataType::kF32 ? 4 : 2);
          const Misaligned<float> q(numbers.Row(rows * q_stride), 4);
          std::vector<float> expected(rows * score_stride, 77.0f), actual = expected;
          scalar_->scores(type, k.get(), cells, dim, q.get(), q_stride, rows, 0.125f,
                          expected.data(), score_stride);
          table_->scores(type, k.get(), cells, dim, q.get(), q_stride, rows, 0.125f, actual.data(),
                         score_stride);
          ASSERT_TRUE(SameBits(expected, actual))
              << DataTypeName(type) << " dim " << dim << " cells " << cells << " rows " << rows;
        }
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
    std::vector<float> scores(rows * cells);
    table_->scores(type, k.data(), cells, dim, q.data(), dim, rows, 0.3f, scores.data(), cells);
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
  for (int repetition = 0; repetition < Repetitions(300); ++repetition) {
    for (const std::size_t cells : kCellCounts) {
      std::vector<float> expected = numbers.Row(cells);
      const float spread = repetition % 3 == 0 ? 1.0f : repetition % 3 == 1 ? 30.0f : 1000.0f;
      for (float& score : expected) score *= spread;
      std::vector<float> actual = expected;
      SoftmaxState expected_state = {-std::numeric_limits<float>::infinity(), 0.0f};
      if (repetition % 2 == 1)
        expected_state = {spread * numbers.Next(), 1.0f + std::fabs(numbers.Next())};
      SoftmaxState actual_state = expected_state;
      const float expected_rescale = scalar_->softmax_run(expected.data(), cells, &expected_state);
      const float actual_rescale = table_->softmax_run(actual.data(), cells, &actual_state);
      ASSERT_TRUE(SameBits(expected, actual)) << cells;
      ASSERT_EQ(BitsOf(expected_rescale), BitsOf(actual_rescale));
      ASSERT_EQ(BitsOf(expected_state.max), BitsOf(actual_state.max));
      ASSERT_EQ(BitsOf(expected_state.sum), BitsOf(actual_state.sum));
    }
  }
}

TEST_P(SoftmaxTest, RescalesByZeroAtFirstAndByOneWhileTheMaximumStays) {
  SoftmaxState state = {-std::numeric_limits<float>::infinity(), 0.0f};
  std::vector<float> scores = {1.0f, 3.0f, 2.0f};
  EXPECT_EQ(table_->softmax_run(scores.data(), 3, &state), 0.0f);
  EXPECT_EQ(scores[1], 1.0f);
  EXPECT_EQ(state.max, 3.0f);
  scores = {3.0f, -100.0f};
  EXPECT_EQ(table_->softmax_run(scores.data(), 2, &state), 1.0f);
  scores = {4.0f};
  EXPECT_NEAR(table_->softmax_run(scores.data(), 1, &state), std::exp(-1.0), 1e-7);
  EXPECT_EQ(state.max, 4.0f);
}

TEST_P(ValuesTest, GiveTheScalarBits) {
  Numbers numbers(24);
  for (const DataType type : kCellTypes) {
    for (const std::size_t dim : kLengths) {
      if (dim % ElementsPerBlock(type) != 0) continue;
      for (const std::size_t cells : kCellCounts) {
        for (const float rescale : {0.0f, 1.0f, 0.37f}) {
          const Misaligned<std::uint8_t> v(Cells(&numbers, type, cells, dim),
                                           type == DataType::kF32 ? 4 : 2);
          const Misaligned<float> p(numbers.Row(cells), 4);
          std::vector<float> expected = numbers.Row(dim + 16), actual = expected;
          scalar_->add_values(type, v.get(), cells, dim, p.get(), rescale, expected.data());
          table_->add_values(type, v.get(), cells, dim, p.get(), rescale, actual.data());
          ASSERT_TRUE(SameBits(expected, actual)) << DataTypeName(type) << " dim " << dim
                                                  << " cells " << cells << " rescale " << rescale;
        }
      }
    }
  }
}

TEST_P(ValuesTest, StartFromZeroWhateverWasThere) {
  const std::vector<float> v(64, 2.0f), p = {0.5f};
  std::vector<float> values(64, std::numeric_limits<float>::quiet_NaN());
  table_->add_values(DataType::kF32, v.data(), 1, 64, p.data(), 0.0f, values.data());
  EXPECT_EQ(values, std::vector<float>(64, 1.0f));
}

// Runs of cells merged one after the other are the softmax over all of them.
TEST_P(AttentionTest, OverRunsIsTheSoftmaxOverAllCells) {
  Numbers numbers(25);
  const std::size_t dim = 64;
  for (const DataType type : kCellTypes) {
    for (const std::size_t depth : {1u, 31u, 32u, 33u, 100u, 257u}) {
      const std::vector<std::uint8_t> k = Cells(&numbers, type, depth, dim),
                                      v = Cells(&numbers, type, depth, dim);
      const std::vector<float> q = numbers.Row(dim);
      const float scale = 0.125f;
      std::vector<float> values(dim), scores(32);
      SoftmaxState state = {-std::numeric_limits<float>::infinity(), 0.0f};
      for (std::size_t c = 0; c < depth; c += 32) {
        const std::size_t count = std::min<std::size_t>(32, depth - c),
                          at = c * RowBytes(type, dim);
        table_->scores(type, k.data() + at, count, dim, q.data(), dim, 1, scale, scores.data(), 32);
        const float rescale = table_->softmax_run(scores.data(), count, &state);
        table_->add_values(type, v.data() + at, count, dim, scores.data(), rescale, values.data());
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
  // Scores of one run against a maximum of 0, so that they become Exp(score).
  const std::uint32_t stride = 40009 / static_cast<std::uint32_t>(std::min(4000, Repetitions(10)));
  double worst = 0;
  for (std::uint32_t bits = BitsOf(-0.0f); bits < BitsOf(-110.0f);) {
    std::vector<float> inputs(32), outputs(32);
    for (float& input : inputs) {
      input = std::bit_cast<float>(bits);
      bits += stride;
    }
    outputs = inputs;
    SoftmaxState state = {0.0f, 0.0f};
    table_->softmax_run(outputs.data(), 32, &state);
    for (std::size_t i = 0; i < 32; ++i) {
      const double truth = std::exp(double{inputs[i]});
      const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(truth) - 23));
      worst = std::max(worst, std::fabs(outputs[i] - truth) / ulp);
    }
  }
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

KVD_FOR_EVERY_TABLE(ScoresTest);
KVD_FOR_EVERY_TABLE(SoftmaxTest);
KVD_FOR_EVERY_TABLE(ValuesTest);
KVD_FOR_EVERY_TABLE(AttentionTest);

TEST(ExpTest, IsWithinOneUlpOverAllFloats) {
  const std::uint32_t stride = 4001 / static_cast<std::uint32_t>(std::min(4000, Repetitions(10)));
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (std::uint32_t bits = 0; bits < BitsOf(88.72f); bits += stride) {
      const float x = std::bit_cast<float>(bits | sign);
      const double truth = std::exp(double{x});
      const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(truth) - 23));
      ASSERT_LE(std::fabs(scalar::Exp(x) - truth), ulp) << x;
    }
  }
}

TEST(ExpTest, KeepsItsPromisesAtTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(BitsOf(scalar::Exp(0.0f)), BitsOf(1.0f));
  EXPECT_EQ(BitsOf(scalar::Exp(-0.0f)), BitsOf(1.0f));
  for (const float x : {-infinity, -1e30f, -1000.0f, -104.0f})
    EXPECT_EQ(BitsOf(scalar::Exp(x)), 0u) << x;
  for (const float x : {infinity, 1e30f, 89.0f, 88.8f}) EXPECT_EQ(scalar::Exp(x), infinity) << x;
  EXPECT_TRUE(std::isfinite(scalar::Exp(88.72f)));
  EXPECT_GT(scalar::Exp(-103.0f), 0.0f);  // subnormal
  EXPECT_TRUE(std::isnan(scalar::Exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace kvd::kernels
