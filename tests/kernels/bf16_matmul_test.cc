// Tests matrix products in bf16.
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "kernels/panels.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"
#include "tests/kernels/random_product.h"

namespace kvd::kernels {
namespace {

// Compares products in bf16, with whole and partial panels, tiles and pairs, with sums in double
// precision of the rounded values.
void ExpectProductsOfBf16(const KernelTable& table) {
  Numbers numbers(24);
  for (const DataType type : {DataType::kF16, DataType::kBF16}) {
    for (const std::size_t n : {1u, 7u, 16u, 31u, 32u, 33u, 48u, 257u, 4128u}) {
      for (const std::size_t rows : {1u, 2u, 5u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 41u}) {
        if (n > 300 && rows % 8 != 1) continue;
        const RandomProduct product(&numbers, type, n, 83, rows);
        const auto rounded = [](float value) { return double{F32FromBF16(BF16FromF32(value))}; };
        std::vector<double> weights;
        for (std::size_t o = 0; o < 83; ++o) {
          const auto* row = product.weights.data() + o * RowBytes(type, n);
          for (std::size_t j = 0; j < n; ++j) {
            weights.push_back(rounded(static_cast<float>(NaiveElement(type, row, j))));
          }
        }
        for (const auto& [first, last] : {std::pair{0u, 83u}, {3u, 19u}, {5u, 6u}}) {
          const std::vector<float> y = product.Run(table, first, last, true);
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t o = 0; o < 83; ++o) {
              if (o < first || o >= last) {
                ASSERT_EQ(y[r * 83 + o], kUntouched);
                continue;
              }
              double sum = 0, magnitude = 0;
              for (std::size_t j = 0; j < n; ++j) {
                const double term =
                    rounded(product.x[r * product.x_stride + j]) * weights[o * n + j];
                sum += term;
                magnitude += std::fabs(term);
              }
              ASSERT_LE(std::fabs(y[r * 83 + o] - sum), 2e-6 * magnitude + 1e-35)
                  << DataTypeName(type) << " n " << n << " row " << r << " of " << rows
                  << " output " << o << " of " << first << ".." << last;
            }
          }
        }
      }
    }
  }
}

// The test runs for the kernel tables that multiply in bf16. Tests are skipped if the machine lacks
// AVX512_BF16.
class Bf16MatmulTest : public TableTest {
 protected:
  void SetUp() override {
    TableTest::SetUp();
    if (!IsSkipped() && table_->round_rows == nullptr) {
      GTEST_SKIP() << "the machine lacks AVX512_BF16";
    }
  }
};

TEST_P(Bf16MatmulTest, ProductsAreThoseOfRoundedRows) { ExpectProductsOfBf16(*table_); }

// Required for --deterministic with weights of f16 and bf16. Tests one row, a few rows, and enough
// rows for panels.
TEST_P(Bf16MatmulTest, ARowDependsNeitherOnOtherRowsNorOnTheRange) {
  Numbers numbers(26);
  for (const DataType type : {DataType::kF16, DataType::kBF16, DataType::kQ5_0}) {
    if (!Supports(*table_, type, WideForm::kBf16)) continue;
    for (const std::size_t n : {1u, 33u, 257u, 512u, 4128u}) {
      if (n % ElementsPerBlock(type) != 0) continue;
      const std::size_t rows = n > 300 ? 9 : 41, outs = 83;
      const RandomProduct product(&numbers, type, n, outs, rows);
      const std::vector<float> together = product.Run(*table_, 0, outs, true);
      for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 17u, 33u}) {
        for (std::size_t r = 0; r + count <= rows; r += 7) {
          const std::size_t first = r % 3 * 5, last = outs - r % 5;
          const std::vector<float> apart = product.Run(*table_, first, last, true, r, count);
          for (std::size_t i = 0; i < apart.size(); ++i) {
            const bool within = i % outs >= first && i % outs < last;
            ASSERT_EQ(BitsOf(apart[i]), BitsOf(within ? together[r * outs + i] : kUntouched))
                << DataTypeName(type) << " n " << n << " rows " << r << " and " << count
                << " output " << i % outs;
          }
        }
      }
    }
  }
}

// The product with weights of type bf16 that have the values of `product`'s weights.
RandomProduct InWeightsOfBf16(const RandomProduct& product) {
  RandomProduct rounded = product;
  rounded.type = DataType::kBF16;
  rounded.weights.clear();
  std::vector<float> decoded(product.in_features);
  const std::size_t row_bytes = RowBytes(product.type, product.in_features);
  for (std::size_t o = 0; o < product.out_features; ++o) {
    ScalarTable()->decode_row(product.type, product.weights.data() + o * row_bytes, decoded.data(),
                              product.in_features);
    for (const float value : decoded) {
      const std::uint16_t half = BF16FromF32(value);
      rounded.weights.push_back(static_cast<std::uint8_t>(half & 0xff));
      rounded.weights.push_back(static_cast<std::uint8_t>(half >> 8));
    }
  }
  return rounded;
}

struct Size {
  std::size_t n, outs, rows;
};

// Quantised weights are decoded and rounded, and then multiplied as weights of bf16. Covers all
// shapes of tiles, several pieces of elements, more outputs than a range has, and more rows than
// are multiplied at once.
TEST(DecodedTileMatmulTest, GivesTheBitsOfProductsWithDecodedWeights) {
  const KernelChoice amx = SelectOrTrap("amx");
  if (amx.table == nullptr) GTEST_SKIP() << amx.problem;
  Numbers numbers(28);
  std::vector<Size> sizes = {{2816, 70, 17}, {256, 300, 33}, {256, 40, 530}, {512, 5, 1}};
  for (const std::size_t rows : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 49u}) {
    sizes.push_back({256, 83, rows});
  }
  for (const std::size_t n : {32u, 64u, 288u, 544u}) sizes.push_back({n, 83, 18});
  for (const DataType type : kAllTypes) {
    if (!IsQuantized(type)) continue;
    ASSERT_TRUE(Supports(*amx.table, type, WideForm::kBf16));
    for (const Size& size : sizes) {
      if (size.n % ElementsPerBlock(type) != 0) continue;
      const RandomProduct product(&numbers, type, size.n, size.outs, size.rows);
      const RandomProduct rounded = InWeightsOfBf16(product);
      for (const auto& [first, last] : {std::pair{std::size_t{0}, size.outs}, {3, 19}, {2, 3}}) {
        if (last > size.outs) continue;
        ASSERT_TRUE(SameBits(rounded.Run(*amx.table, first, last, true),
                             product.Run(*amx.table, first, last, true)))
            << DataTypeName(type) << " n " << size.n << " rows " << size.rows << " outputs "
            << first << ".." << last << " of " << size.outs;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, Bf16MatmulTest, ::testing::Values("avx512", "amx"),
                         [](const auto& table) { return std::string(table.param); });

}  // namespace
}  // namespace kvd::kernels
