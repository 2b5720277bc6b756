#include <limits>

#include "tests/kernels/kernel_inputs.h"

#include "tests/support/test_scale.h"

namespace kvd::kernels {
namespace {

class RowsTest : public TableTest {};

// Calls call(table, y) for both tables and compares y, which has 16 more elements than the row.
template <class F>
::testing::AssertionResult SameRow(const KernelTable& expected_table,
                                   const KernelTable& actual_table, std::size_t n, const F& call) {
  std::vector<float> expected(n + 16, 77.0f), actual = expected;
  call(expected_table, expected.data());
  call(actual_table, actual.data());
  return SameBits(expected, actual);
}

TEST_P(RowsTest, NormGivesTheScalarBits) {
  Numbers numbers(31);
  for (const std::size_t n : kLengths) {
    const Misaligned<float> x(numbers.Row(n), 4), weight(numbers.Row(n), 4);
    ASSERT_TRUE(SameRow(*scalar_, *table_, n, [&](const KernelTable& table, float* y) {
      table.rms_norm(x.get(), weight.get(), n, 1e-5f, y);
    })) << n;
  }
}

TEST_P(RowsTest, NormMakesTheMeanSquareOne) {
  Numbers numbers(32);
  std::vector<float> x = numbers.Row(300);
  const std::vector<float> weight(300, 1.0f);
  table_->rms_norm(x.data(), weight.data(), 300, 0.0f, x.data());  // in place
  double mean = 0;
  for (const float value : x) mean += double{value} * value / 300;
  EXPECT_NEAR(mean, 1.0, 1e-6);
}

TEST_P(RowsTest, RopeGivesTheScalarBits) {
  Numbers numbers(33);
  for (const bool interleaved : {false, true}) {
    for (const std::size_t head_dim : {2u, 6u, 32u, 34u, 64u, 80u, 128u, 130u}) {
      for (const std::size_t rotated : {std::size_t{0}, head_dim / 4 * 2, head_dim}) {
        const Misaligned<float> cosine(numbers.Row(rotated / 2), 4),
            sine(numbers.Row(rotated / 2), 4);
        const std::vector<float> x = numbers.Row(3 * head_dim + 4);
        std::vector<float> expected = x, actual = x;
        scalar_->rope(expected.data(), 3, head_dim, rotated, interleaved, cosine.get(), sine.get());
        table_->rope(actual.data(), 3, head_dim, rotated, interleaved, cosine.get(), sine.get());
        ASSERT_TRUE(SameBits(expected, actual)) << head_dim << " " << rotated << " " << interleaved;
      }
    }
  }
}

TEST_P(RowsTest, RopeTurnsPairsByTheirAngles) {
  for (const bool interleaved : {false, true}) {
    const std::size_t dim = 40;
    std::vector<float> x(2 * dim), cosine(16), sine(16);
    for (std::size_t i = 0; i < 2 * dim; ++i) x[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < 16; ++i)
      cosine[i] = std::cos(0.1f * static_cast<float>(i)),
      sine[i] = std::sin(0.1f * static_cast<float>(i));
    const std::vector<float> before = x;
    table_->rope(x.data(), 2, dim, 32, interleaved, cosine.data(), sine.data());
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 16; ++i) {
        const std::size_t a = h * dim + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + 16;
        EXPECT_FLOAT_EQ(x[a], before[a] * cosine[i] - before[b] * sine[i]);
        EXPECT_FLOAT_EQ(x[b], before[a] * sine[i] + before[b] * cosine[i]);
      }
      for (std::size_t d = 32; d < dim; ++d) EXPECT_EQ(x[h * dim + d], before[h * dim + d]);
    }
  }
}

TEST_P(RowsTest, SiluGivesTheScalarBits) {
  Numbers numbers(34);
  for (const std::size_t n : kLengths) {
    std::vector<float> gates = numbers.Row(n);
    for (std::size_t i = 0; i < n; i += 3) gates[i] *= 60.0f;  // Exp underflows and overflows
    const Misaligned<float> gate(gates, 4), up(numbers.Row(n), 4);
    ASSERT_TRUE(SameRow(*scalar_, *table_, n, [&](const KernelTable& table, float* y) {
      table.silu_multiply(gate.get(), up.get(), n, y);
    })) << n;
  }
}

TEST_P(RowsTest, SiluIsCloseToTheTruthAndFinite) {
  for (float gate = -200.0f; gate <= 200.0f; gate += 0.37f) {
    const float up = 3.0f;
    float y = 0;
    table_->silu_multiply(&gate, &up, 1, &y);
    const double truth = gate / (1.0 + std::exp(-double{gate})) * 3.0;
    ASSERT_NEAR(y, truth, 1e-6 * std::fabs(truth) + 1e-36) << gate;
  }
}

TEST_P(RowsTest, GeluAndSoftcapGiveTheScalarBits) {
  Numbers numbers(38);
  for (const std::size_t n : kLengths) {
    std::vector<float> values = numbers.Row(n);
    // Inputs that are multiplied by 60 reach the limits of GELU and softcap.
    for (std::size_t i = 0; i < n; i += 3) values[i] *= 60.0f;
    // For inputs near 0, e^x - 1 would lose digits by cancellation.
    for (std::size_t i = 1; i < n; i += 5) values[i] *= 1e-3f;
    for (std::size_t i = 17; i < n; i += 50) values[i] = NAN;
    const Misaligned<float> x(values, 4), up(numbers.Row(n), 4);
    ASSERT_TRUE(SameRow(*scalar_, *table_, n, [&](const KernelTable& table, float* y) {
      table.gelu_multiply(x.get(), up.get(), n, y);
    })) << n;
    ASSERT_TRUE(SameRow(*scalar_, *table_, n, [&](const KernelTable& table, float* y) {
      table.softcap(x.get(), 5.0f, n, y);
    })) << n;
  }
}

TEST_P(RowsTest, GeluIsCloseToTheTruthAndFinite) {
  for (float gate = -60.0f; gate <= 60.0f; gate += 0.037f) {
    const float up = 3.0f;
    float y = 0;
    table_->gelu_multiply(&gate, &up, 1, &y);
    const double u = std::sqrt(2.0 / M_PI) * (gate + 0.044715 * std::pow(double{gate}, 3));
    const double truth = gate / (1.0 + std::exp(-2.0 * u)) * 3.0;
    // The allowed error has two parts: a relative error from rounding the input and the result to
    // f16 (half an ulp each; the error of the input grows with u), and an absolute error for
    // results that are subnormal in f16.
    ASSERT_NEAR(y, truth, 1e-3 * (1.0 + 2.0 * std::fabs(u)) * std::fabs(truth) + 1e-6) << gate;
    if (std::fabs(gate) >= 10.0f) {
      ASSERT_NEAR(y, gate < 0 ? 0.0f : 3.0f * gate, 1e-5f * std::fabs(gate)) << gate;
    }
  }
}

TEST_P(RowsTest, SoftcapIsCloseToTheTruthFromTinyToHuge) {
  for (const float sign : {-1.0f, 1.0f}) {
    for (float magnitude = 1e-30f; magnitude < 1e30f; magnitude *= 1.07f) {
      const float x = sign * magnitude;
      float y = 0;
      table_->softcap(&x, 30.0f, 1, &y);
      const double truth = 30.0 * std::tanh(double{x} / 30.0);
      ASSERT_NEAR(y, truth, 2.4e-7 * std::fabs(truth)) << x;
    }
  }
  const float ends[] = {INFINITY, -INFINITY, 0.0f};
  float y[3];
  table_->softcap(ends, 50.0f, 3, y);
  EXPECT_EQ(y[0], 50.0f);
  EXPECT_EQ(y[1], -50.0f);
  EXPECT_EQ(y[2], 0.0f);
}

TEST_P(RowsTest, AddAndScaleGiveTheScalarBits) {
  Numbers numbers(35);
  for (const std::size_t n : kLengths) {
    const Misaligned<float> a(numbers.Row(n), 4), b(numbers.Row(n), 4);
    ASSERT_TRUE(SameRow(*scalar_, *table_, n, [&](const KernelTable& table, float* y) {
      table.add(a.get(), b.get(), n, y);
    }));
    ASSERT_TRUE(SameRow(*scalar_, *table_, n, [&](const KernelTable& table, float* y) {
      table.scale(a.get(), 0.3f, n, y);
    }));
  }
}

TEST_P(RowsTest, MayWriteOverAnInput) {
  Numbers numbers(36);
  for (const std::size_t n : kLengths) {
    const std::vector<float> a = numbers.Row(n), b = numbers.Row(n);
    std::vector<float> expected(n), in_place = a;
    table_->add(a.data(), b.data(), n, expected.data());
    table_->add(in_place.data(), b.data(), n, in_place.data());
    ASSERT_TRUE(SameBits(expected, in_place));
    table_->silu_multiply(a.data(), b.data(), n, expected.data());
    in_place = b;
    table_->silu_multiply(a.data(), in_place.data(), n, in_place.data());
    ASSERT_TRUE(SameBits(expected, in_place));
    table_->rms_norm(a.data(), b.data(), n, 1e-6f, expected.data());
    in_place = a;
    table_->rms_norm(in_place.data(), b.data(), n, 1e-6f, in_place.data());
    ASSERT_TRUE(SameBits(expected, in_place));
  }
}

TEST_P(RowsTest, FindsEveryValueThatIsNotFinite) {
  for (const std::size_t n : kLengths) {
    std::vector<float> x(n, 0x1.fffffep127f);
    EXPECT_TRUE(table_->all_finite(x.data(), n));
    for (std::size_t i = 0; i < n; ++i) {
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        x[i] = bad;
        ASSERT_FALSE(table_->all_finite(x.data(), n)) << i << " of " << n;
      }
      x[i] = 1e-40f;
    }
  }
}

TEST_P(RowsTest, ArgmaxIsTheFirstOfTheLargest) {
  Numbers numbers(37);
  for (const std::size_t n : kLengths) {
    if (n == 0) continue;
    for (int repetition = 0; repetition < test::Scaled(50); ++repetition) {
      std::vector<float> x = numbers.Row(n);
      if (repetition % 2 == 0) {
        for (float& value : x)
          value = std::floor(value);  // many equal values, among them zeros of both signs
      }
      ASSERT_EQ(table_->argmax(x.data(), n), scalar_->argmax(x.data(), n)) << n;
      ASSERT_EQ(table_->argmax(x.data(), n),
                static_cast<std::size_t>(std::max_element(x.begin(), x.end()) - x.begin()));
    }
    const std::vector<float> nothing(n, -std::numeric_limits<float>::infinity());
    ASSERT_EQ(table_->argmax(nothing.data(), n), 0u);
  }
}

KVD_FOR_EVERY_TABLE(RowsTest);

}  // namespace
}  // namespace kvd::kernels
