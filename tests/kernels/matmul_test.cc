#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/bf16_panel.h"
#include "kernels/matmul_panel.h"
#include "kernels/product_choice.h"
#include "kernels/quantized_row.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"

namespace kvd::kernels {
namespace {

constexpr float kUntouched = 77.0f;

// A matrix product with random operands: weights [out_features, in_features] and x [row_count,
// in_features], with a row stride of in_features + 3.
struct Product {
  Product(Numbers* numbers, DataType weight_type, std::size_t n, std::size_t outs, std::size_t rows)
      : type(weight_type), in_features(n), out_features(outs), row_count(rows), x_stride(n + 3) {
    for (std::size_t o = 0; o < outs; ++o) {
      const std::vector<std::uint8_t> row = numbers->WeightRow(type, n);
      weights.insert(weights.end(), row.begin(), row.end());
    }
    x = numbers->Row(rows == 0 ? 0 : (rows - 1) * x_stride + n);
  }

  // Computes up to `rows` rows from first_row on. Returns y [rows, out_features], in which the
  // outputs outside [first, last) are kUntouched. in_bf16: passes rows rounded to bf16 to the
  // kernel if the type and the table support products in bf16.
  std::vector<float> Run(const KernelTable& table, std::size_t first, std::size_t last,
                         bool in_bf16 = false, std::size_t first_row = 0,
                         std::size_t rows = SIZE_MAX) const {
    rows = std::min(rows, row_count - first_row);
    const Misaligned<std::uint8_t> unaligned_weights(weights, type == DataType::kF32 ? 4 : 2);
    const Misaligned<float> unaligned_x(x, 4);
    std::vector<float> y(rows * out_features, kUntouched);
    std::vector<float*> y_rows(rows);
    for (std::size_t r = 0; r < rows; ++r) y_rows[r] = y.data() + r * out_features;
    const std::size_t workspace_floats = MatmulWorkspaceFloats(in_features, rows);
    std::vector<float> storage(workspace_floats + 16, NAN);
    void* workspace = storage.data();
    std::size_t space = storage.size() * sizeof(float);
    workspace = std::align(64, workspace_floats * sizeof(float), workspace, space);
    const auto quantized = Quantized(table, unaligned_x.get() + first_row * x_stride, rows);
    const auto rounded =
        in_bf16 ? Rounded(table, unaligned_x.get() + first_row * x_stride, rows) : nullptr;
    table.matmul({.weight_type = type,
                  .weights = unaligned_weights.get(),
                  .in_features = in_features,
                  .x = unaligned_x.get() + first_row * x_stride,
                  .x_stride = x_stride,
                  .quantized_x = quantized.get(),
                  .bf16_x = rounded.get(),
                  .row_count = rows,
                  .y = y_rows.data(),
                  .first_out = first,
                  .last_out = last,
                  .workspace = static_cast<float*>(workspace),
                  .outer_products = in_outer,
                  .ahead_bytes = ahead_bytes,
                  .panel_from_rows = panel_from_rows,
                  .panel_outs = panel_outs});
    return y;
  }

  // Returns rows of x quantised by the table; null if the weight type does not use them.
  AlignedBytes Quantized(const KernelTable& table, const float* from, std::size_t rows) const {
    if (!IsQuantized(type)) return nullptr;
    AlignedBytes bytes = MakeAlignedBytes(rows * QuantizedRowBytes(in_features));
    table.quantize_rows(from, x_stride, rows, in_features, bytes.get());
    return bytes;
  }

  // Returns rows of x rounded to bf16 by the table; null if the weight type or the table has no
  // products in bf16.
  AlignedBytes Rounded(const KernelTable& table, const float* from, std::size_t rows) const {
    if (!Supports(table, type, WideForm::kBf16)) return nullptr;
    AlignedBytes bytes = MakeAlignedBytes(rows * Bf16RowBytes(in_features));
    table.round_rows(from, x_stride, rows, in_features, bytes.get());
    return bytes;
  }

  DataType type;
  std::size_t in_features, out_features, row_count, x_stride;
  std::vector<std::uint8_t> weights;
  std::vector<float> x;
  bool in_outer = false;
  std::uint32_t ahead_bytes = 0, panel_from_rows = 0, panel_outs = 0;
};

constexpr std::array kPlainTypes = {DataType::kF32, DataType::kF16, DataType::kBF16};

class MatmulTest : public TableTest {};

TEST_P(MatmulTest, GivesTheScalarBits) {
  Numbers numbers(11);
  for (const DataType type : kAllTypes) {
    for (const std::size_t n : kLengths) {
      if (n % ElementsPerBlock(type) != 0) continue;
      for (const std::size_t rows : kRowCounts) {
        const Product product(&numbers, type, n, 11, rows);
        for (const auto& [first, last] : {std::pair{0, 11}, {1, 10}, {3, 4}, {5, 5}, {2, 7}}) {
          const auto from = static_cast<std::size_t>(first), to = static_cast<std::size_t>(last);
          ASSERT_TRUE(SameBits(product.Run(*scalar_, from, to), product.Run(*table_, from, to)))
              << DataTypeName(type) << " n " << n << " rows " << rows << " outputs " << from << ".."
              << to;
        }
      }
    }
  }
}

TEST_P(MatmulTest, GivesTheScalarBitsOverSeveralPanelsAndSteps) {
  Numbers numbers(12);
  for (const DataType type :
       {DataType::kF32, DataType::kBF16, DataType::kQ8_0, DataType::kQ4_K, DataType::kQ6_K}) {
    const std::size_t n = IsQuantized(type) ? 2816 : 2571;
    for (const std::size_t rows : {1u, 4u, 14u}) {
      const Product product(&numbers, type, n, 135, rows);
      ASSERT_TRUE(SameBits(product.Run(*scalar_, 1, 134), product.Run(*table_, 1, 134)))
          << DataTypeName(type) << " rows " << rows;
    }
  }
}

TEST_P(MatmulTest, ChoicesOfPanelsAndPrefetchesChangeNoBit) {
  struct Choice {
    std::uint32_t ahead_bytes, panel_from_rows, panel_outs;
  };
  Numbers numbers(29);
  for (const DataType type : {DataType::kQ8_0, DataType::kQ6_K, DataType::kQ2_K}) {
    for (const std::size_t rows : {1u, 5u, 12u, 50u}) {
      Product product(&numbers, type, 512, 100, rows);
      const std::vector<float> expected = product.Run(*scalar_, 1, 99);
      for (const Choice& choice : {Choice{8192, 3, 32}, Choice{65536, 13, 64}, Choice{0, 6, 32},
                                   Choice{0, 65536, 64}, Choice{32768, 12, 0}}) {
        product.ahead_bytes = choice.ahead_bytes;
        product.panel_from_rows = choice.panel_from_rows;
        product.panel_outs = choice.panel_outs;
        ASSERT_TRUE(SameBits(expected, product.Run(*table_, 1, 99)))
            << DataTypeName(type) << " rows " << rows << " panel from " << choice.panel_from_rows;
      }
    }
  }
}

TEST_P(MatmulTest, TakesRowsLongerThanAPanel) {
  Numbers numbers(13);
  const Product product(&numbers, DataType::kF16, 50001, 6, 7);
  ASSERT_TRUE(SameBits(product.Run(*scalar_, 0, 6), product.Run(*table_, 0, 6)));
  for (const DataType type : {DataType::kQ5_1, DataType::kQ6_K}) {
    const Product quantised(&numbers, type, 33 * 256, 70, 9);
    ASSERT_TRUE(SameBits(quantised.Run(*scalar_, 1, 70), quantised.Run(*table_, 1, 70)));
  }
}

TEST_P(MatmulTest, TakesMoreRowsThanAPass) {
  static_assert(kPassRows < 515 && kPanelElements < 1040);
  Numbers numbers(28);
  const Product product(&numbers, DataType::kF16, 1040, 66, 515);
  ASSERT_TRUE(SameBits(product.Run(*scalar_, 60, 66), product.Run(*table_, 60, 66)));
}

// Covers all heights of tiles, incomplete groups of outputs and of elements, several panels along
// the outputs and along the elements, and y rows of no elements.
TEST_P(MatmulTest, OuterProductsGiveTheScalarBits) {
  static_assert(kOuterElements < 1040 && kOuterOutputs < 150);
  Numbers numbers(30);
  for (const DataType type : kPlainTypes) {
    for (const std::size_t n : kLengths) {
      const std::size_t outs = n < 64 ? 150 : 37;
      for (const std::size_t rows : kRowCounts) {
        Product product(&numbers, type, n, outs, rows);
        product.in_outer = true;
        for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, outs},
                                          {1, outs - 1},
                                          {3, 4},
                                          {5, 5},
                                          {2, 19}}) {
          ASSERT_TRUE(
              SameBits(product.Run(*scalar_, first, last), product.Run(*table_, first, last)))
              << DataTypeName(type) << " n " << n << " rows " << rows << " outputs " << first
              << ".." << last;
        }
      }
    }
  }
}

TEST_P(MatmulTest, ARowOfOuterProductsDoesNotDependOnItsCompanions) {
  Numbers numbers(31);
  for (const DataType type : kPlainTypes) {
    const std::size_t rows = 31, outs = 33;
    Product product(&numbers, type, 700, outs, rows);
    product.in_outer = true;
    const std::vector<float> together = product.Run(*table_, 0, outs);
    for (const std::size_t count : {1u, 2u, 5u, 6u, 7u, 12u, 13u}) {
      for (std::size_t r = 0; r + count <= rows; r += 3) {
        const std::vector<float> apart = product.Run(*table_, 0, outs, false, r, count);
        const auto first = together.begin() + static_cast<std::ptrdiff_t>(r * outs);
        ASSERT_TRUE(SameBits({first, first + static_cast<std::ptrdiff_t>(count * outs)}, apart))
            << DataTypeName(type) << " rows " << r << " and " << count;
      }
    }
  }
}

TEST_P(MatmulTest, ARowDoesNotDependOnItsCompanions) {
  Numbers numbers(14);
  for (const DataType type : kAllTypes) {
    const std::size_t rows = 23, outs = 9;
    const Product product(&numbers, type, 512, outs, rows);
    const std::vector<float> together = product.Run(*table_, 0, outs);
    for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 8u, 11u}) {
      for (std::size_t r = 0; r + count <= rows; r += 3) {
        const std::vector<float> apart = product.Run(*table_, 0, outs, false, r, count);
        const auto first = together.begin() + static_cast<std::ptrdiff_t>(r * outs);
        ASSERT_TRUE(SameBits({first, first + static_cast<std::ptrdiff_t>(count * outs)}, apart))
            << DataTypeName(type) << " rows " << r << " and " << count;
      }
    }
  }
}

TEST_P(MatmulTest, AnOutputDoesNotDependOnTheRange) {
  Numbers numbers(15);
  for (const std::size_t rows : {1u, 3u, 9u}) {
    const Product product(&numbers, DataType::kQ4_0, 256, 70, rows);
    const std::vector<float> together = product.Run(*table_, 0, 70);
    std::vector<float> assembled(together.size(), kUntouched);
    for (std::size_t first = 0, last = 0; first < 70; first = last) {
      last = std::min<std::size_t>(70, first + 1 + numbers.Byte() % 9);
      const std::vector<float> part = product.Run(*table_, first, last);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t o = first; o < last; ++o) assembled[r * 70 + o] = part[r * 70 + o];
      }
    }
    ASSERT_TRUE(SameBits(together, assembled)) << rows;
  }
}

TEST_P(MatmulTest, WritesOnlyItsRange) {
  Numbers numbers(16);
  for (const std::size_t rows : {1u, 2u, 4u, 7u}) {
    const Product product(&numbers, DataType::kQ8_0, 64, 21, rows);
    const std::vector<float> y = product.Run(*table_, 5, 16);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t o = 0; o < 21; ++o) {
        if (o < 5 || o >= 16) {
          ASSERT_EQ(y[r * 21 + o], kUntouched);
        }
      }
    }
  }
}

// The error of a sum is compared with the sum of the magnitudes of its terms, because cancellation
// loses digits in any order of summation. With quantised weights the expected sum uses the
// quantised x.
TEST_P(MatmulTest, ComesCloseToTheTrueProduct) {
  Numbers numbers(17);
  for (const bool in_bf16 : {false, true}) {
    for (const DataType type : kAllTypes) {
      for (const std::size_t rows : {1u, 3u, 8u, 64u}) {
        const std::size_t n = 768, outs = 66;
        const Product product(&numbers, type, n, outs, rows);
        const AlignedBytes quantized = product.Quantized(*table_, product.x.data(), rows);
        const std::vector<float> y = product.Run(*table_, 0, outs, in_bf16);
        const bool rounds = in_bf16 && Supports(*table_, type, WideForm::kBf16);
        const bool reads_quantized = IsQuantized(type) && !rounds;
        for (std::size_t r = 0; r < rows; r += 5) {
          const QuantizedRow row =
              reads_quantized ? QuantizedRowAt(quantized.get(), n, r) : QuantizedRow{};
          for (std::size_t o = 0; o < outs; o += 3) {
            double sum = 0, magnitude = 0;
            for (std::size_t j = 0; j < n; ++j) {
              const double x = reads_quantized ? double{row.scales[j / 32]} * row.q[j]
                                               : double{product.x[r * product.x_stride + j]};
              const double term =
                  x * NaiveElement(type, product.weights.data() + o * RowBytes(type, n), j);
              sum += term;
              magnitude += std::fabs(term);
            }
            // Both operands of a product in bf16 are rounded to 8 significant bits.
            ASSERT_LE(std::fabs(y[r * outs + o] - sum), (rounds ? 1e-3 : 1e-6) * magnitude)
                << DataTypeName(type) << " row " << r << " output " << o << " in bf16 " << in_bf16;
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, QuantisesRowsAsTheScalarTable) {
  Numbers numbers(19);
  for (const std::size_t n : {0u, 32u, 64u, 96u, 128u, 160u, 1056u}) {
    for (const std::size_t rows : {0u, 1u, 3u}) {
      const Product product(&numbers, DataType::kQ8_0, n, 1, rows);
      const AlignedBytes expected = product.Quantized(*scalar_, product.x.data(), rows);
      const AlignedBytes actual = product.Quantized(*table_, product.x.data(), rows);
      ASSERT_EQ(std::memcmp(expected.get(), actual.get(), rows * QuantizedRowBytes(n)), 0)
          << n << " " << rows;
    }
  }
}

// Quantises a block of zeros, a block of subnormals, a block of the largest numbers, and a block of
// numbers halfway between two integers.
TEST_P(MatmulTest, QuantisesBlocksAtTheLimits) {
  Numbers numbers(20);
  Product product(&numbers, DataType::kQ8_0, 160, 1, 1);
  for (std::size_t j = 0; j < 32; ++j) {
    product.x[j] = j % 2 == 0 ? 0.0f : -0.0f;
    product.x[32 + j] = std::bit_cast<float>(numbers.Bits() & 0x807fffffu);
    product.x[64 + j] = j % 2 == 0 ? 0x1.fffffep127f : -0x1.8p127f;
    product.x[96 + j] = j == 0 ? 127.0f : static_cast<float>(j) - 16.5f;
  }
  const AlignedBytes expected = product.Quantized(*scalar_, product.x.data(), 1);
  const AlignedBytes actual = product.Quantized(*table_, product.x.data(), 1);
  ASSERT_EQ(std::memcmp(expected.get(), actual.get(), QuantizedRowBytes(160)), 0);
  const QuantizedRow row = QuantizedRowAt(actual.get(), 160, 0);
  EXPECT_EQ(row.scales[0], 0.0f);
  EXPECT_EQ(row.q[64], 127);
  EXPECT_EQ(row.q[96 + 1], -16);  // from -15.5: ties are rounded to even
  EXPECT_EQ(row.q[96 + 2], -14);  // from -14.5
}

// A NaN or an infinity in a row of x makes all outputs of the row not finite, so that a step with
// activations that are not finite is detected by its logits. The outputs of other rows are not
// affected.
TEST_P(MatmulTest, AnInputThatIsNotFiniteSpoilsItsRowOnly) {
  Numbers numbers(21);
  for (const DataType type : kAllTypes) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (const std::size_t rows : {2u, 9u, 19u}) {
        const std::size_t outs = 5;
        Product product(&numbers, type, 512, outs, rows);
        product.x[product.x_stride + 333] = bad;
        // The outputs are not finite for any weight, because an infinity times zero is a NaN.
        for (const bool in_bf16 : {false, true}) {
          const std::vector<float> y = product.Run(*table_, 0, outs, in_bf16);
          for (std::size_t i = 0; i < y.size(); ++i) {
            ASSERT_EQ(std::isfinite(y[i]), i / outs != 1)
                << DataTypeName(type) << " " << bad << " of " << rows << " rows, output "
                << i % outs << " of row " << i / outs << " in bf16 " << in_bf16;
          }
        }
      }
    }
  }
}

// Covers all shapes of tiles, more outputs than one group of a panel has, and several lengths of
// sums.
TEST(TileMatmulTest, GivesTheScalarBits) {
  const KernelChoice amx = SelectOrTrap("amx");
  if (amx.table == nullptr) GTEST_SKIP() << amx.problem;
  Numbers numbers(23);
  for (const DataType type : kAllTypes) {
    if (!IsQuantized(type)) continue;
    for (const std::size_t n : {32u, 64u, 96u, 160u, 256u, 2816u, 33u * 256u}) {
      if (n % ElementsPerBlock(type) != 0) continue;
      for (const std::size_t rows : {12u, 15u, 16u, 17u, 33u}) {
        if (n > 256 && rows != 17) continue;
        const Product product(&numbers, type, n, 83, rows);
        for (const auto& [first, last] : {std::pair{0u, 83u}, {3u, 19u}, {5u, 6u}}) {
          ASSERT_TRUE(SameBits(product.Run(*ScalarTable(), first, last),
                               product.Run(*amx.table, first, last)))
              << DataTypeName(type) << " n " << n << " rows " << rows << " outputs " << first
              << ".." << last;
        }
      }
    }
  }
}

// The amx table adds the integer sums of two halves of a block as floats. The largest possible sums
// of either sign are exact in f32.
TEST(TileMatmulTest, AddsTheLargestHalvesExactly) {
  const KernelChoice amx = SelectOrTrap("amx");
  if (amx.table == nullptr) GTEST_SKIP() << amx.problem;
  Numbers numbers(25);
  const std::size_t outs = 20;
  Product product(&numbers, DataType::kQ6_K, 256, outs, 16);
  for (std::size_t r = 0; r < 16; ++r) {
    for (std::size_t j = 0; j < 256; ++j) {
      product.x[r * product.x_stride + j] = r % 2 == 0 ? 1.0f : -1.0f;
    }
  }
  constexpr std::size_t kBlockBytes = 210, kScalesAt = 192, kScales = 16;
  for (std::size_t o = 0; o < outs; ++o) {
    std::uint8_t* const block = product.weights.data() + o * kBlockBytes;
    std::fill_n(block, kScalesAt, std::uint8_t{0});               // every weight is -32
    std::fill_n(block + kScalesAt, kScales, std::uint8_t{0x80});  // every scale is -128
    if (o % 3 == 0) block[kScalesAt + o % kScales] = 0x7f;        // one scale of the opposite sign
    if (o % 5 == 0) std::fill_n(block + kScalesAt, kScales, std::uint8_t{0});
  }
  ASSERT_TRUE(SameBits(product.Run(*ScalarTable(), 0, outs), product.Run(*amx.table, 0, outs)));
}

// Compares products in bf16, with whole and partial panels, tiles and pairs, with sums in double
// precision of the rounded values.
void ExpectProductsOfBf16(const KernelTable& table) {
  Numbers numbers(24);
  for (const DataType type : {DataType::kF16, DataType::kBF16}) {
    for (const std::size_t n : {1u, 7u, 16u, 31u, 32u, 33u, 48u, 257u, 4128u}) {
      for (const std::size_t rows : {1u, 2u, 5u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 41u}) {
        if (n > 300 && rows % 8 != 1) continue;
        const Product product(&numbers, type, n, 83, rows);
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
TEST_P(Bf16MatmulTest, ARowDependsNeitherOnItsCompanionsNorOnTheRange) {
  Numbers numbers(26);
  for (const DataType type : {DataType::kF16, DataType::kBF16, DataType::kQ5_0}) {
    if (!Supports(*table_, type, WideForm::kBf16)) continue;
    for (const std::size_t n : {1u, 33u, 257u, 512u, 4128u}) {
      if (n % ElementsPerBlock(type) != 0) continue;
      const std::size_t rows = n > 300 ? 9 : 41, outs = 83;
      const Product product(&numbers, type, n, outs, rows);
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
Product InWeightsOfBf16(const Product& product) {
  Product rounded = product;
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
      const Product product(&numbers, type, size.n, size.outs, size.rows);
      const Product rounded = InWeightsOfBf16(product);
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

// The default of a table that multiplies no bf16, but is faster with outer products.
TEST(ProductChoicesTest, AreOuterProductsWhereTheTableIsFasterWithThem) {
  for (const char* const name : {"scalar", "avx2", "avx512", "amx"}) {
    const KernelChoice choice = SelectOrTrap(name);
    if (choice.table == nullptr) continue;
    const ProductChoices choices = DefaultChoices(*choice.table);
    const auto rows = static_cast<std::uint32_t>(choice.table->outer_rows_min);
    EXPECT_EQ(rows != 0, std::string_view(name) == "avx2");
    for (const DataType type : kPlainTypes) {
      EXPECT_TRUE(Supports(*choice.table, type, WideForm::kOuter)) << name;
      const ProductChoice expected = {WideForm::kOuter, rows};
      EXPECT_EQ(choices.For(type) == expected, rows != 0 && type != DataType::kF32) << name;
    }
    EXPECT_FALSE(Supports(*choice.table, DataType::kQ8_0, WideForm::kOuter)) << name;
    EXPECT_NE(choices.For(DataType::kQ8_0).wide_form, WideForm::kOuter) << name;
  }
}

TEST(ProductChoicesTest, AreBf16WhereTheTableMultipliesIt) {
  for (const char* const name : {"scalar", "avx2", "avx512", "amx"}) {
    const KernelChoice choice = SelectOrTrap(name);
    if (choice.table == nullptr) continue;
    const KernelTable& table = *choice.table;
    const ProductChoices choices = DefaultChoices(table);
    EXPECT_EQ(choices.For(DataType::kF32), ProductChoice{});
    EXPECT_FALSE(Supports(table, DataType::kF32, WideForm::kBf16));
    const bool rounds = table.round_rows != nullptr, tiles = std::string_view(name) == "amx";
    for (const DataType type : {DataType::kF16, DataType::kQ8_0, DataType::kMXFP4}) {
      const bool expected = IsQuantized(type) ? tiles : rounds;
      EXPECT_EQ(Supports(table, type, WideForm::kBf16), expected) << name;
      EXPECT_TRUE(Supports(table, type, WideForm::kAsNarrow)) << name;
      EXPECT_EQ(choices.For(type).wide_form == WideForm::kBf16, expected) << name;
      EXPECT_EQ(choices.For(type).wide_from_rows != 0,
                choices.For(type).wide_form != WideForm::kAsNarrow)
          << name;
    }
  }
}

TEST(ProductChoicesTest, HoldOneChoiceForEachType) {
  ProductChoices choices;
  std::uint32_t rows = 0;
  for (const DataType type : kAllTypes) choices.Set(type, {WideForm::kBf16, ++rows});
  rows = 0;
  for (const DataType type : kAllTypes) EXPECT_EQ(choices.For(type).wide_from_rows, ++rows);
}

KVD_FOR_EVERY_TABLE(MatmulTest);
INSTANTIATE_TEST_SUITE_P(Tables, Bf16MatmulTest, ::testing::Values("avx512", "amx"),
                         [](const auto& table) { return std::string(table.param); });

// Computes one product directly from the definition of the numeric form in kernels/kernel_table.h.
TEST(NumericFormTest, IsSixteenPartialSumsAndATree) {
  Numbers numbers(18);
  const std::size_t n = 77;
  const Product product(&numbers, DataType::kF32, n, 1, 1);
  const std::vector<float> y = product.Run(*ScalarTable(), 0, 1);
  const auto* w = reinterpret_cast<const float*>(product.weights.data());
  float s[16] = {};
  for (std::size_t j = 0; j < n; ++j) s[j % 16] = std::fma(product.x[j], w[j], s[j % 16]);
  for (const std::size_t width : {8u, 4u, 2u, 1u}) {
    for (std::size_t i = 0; i < width; ++i) s[i] += s[i + width];
  }
  EXPECT_EQ(BitsOf(y[0]), BitsOf(s[0]));
}

// Computes one product with the order of sums of VDPBF16PS and TDPBF16PS, as defined in
// kernels/kernel_table.h.
TEST(NumericFormTest, IsPairsInOrderWithWeightsOfHalves) {
  Numbers numbers(27);
  const std::size_t n = 77;
  const Product product(&numbers, DataType::kBF16, n, 1, 1);
  const auto normal = [](double value) {
    return std::fabs(value) < 0x1p-126 ? 0.0f : static_cast<float>(value);
  };
  const auto x = [&](std::size_t j) {
    return j < n ? normal(F32FromBF16(BF16FromF32(product.x[j]))) : 0.0f;
  };
  const auto w = [&](std::size_t j) {
    return j < n ? normal(NaiveElement(DataType::kBF16, product.weights.data(), j)) : 0.0f;
  };
  for (const char* const name : {"avx512", "amx"}) {
    const KernelChoice choice = SelectOrTrap(name);
    if (choice.table == nullptr || choice.table->round_rows == nullptr) continue;
    const bool tiles = std::string_view(name) == "amx";
    float sum = 0, even = 0, odd = 0;
    for (std::size_t j = 0; j < 96; j += 2) {
      if (tiles) {
        even = std::fma(x(j), w(j), even);
        odd = std::fma(x(j + 1), w(j + 1), odd);
        if (j % 32 == 30) sum += std::exchange(even, 0.0f) + std::exchange(odd, 0.0f);
      } else {
        sum = std::fma(x(j), w(j), std::fma(x(j + 1), w(j + 1), sum));
      }
    }
    EXPECT_EQ(BitsOf(product.Run(*choice.table, 0, 1, true)[0]), BitsOf(sum)) << name;
  }
}

TEST(NumericFormTest, IsFourPartialSumsOfExactIntegersWithQuantisedWeights) {
  Numbers numbers(22);
  const std::size_t n = 7 * 32;
  const Product product(&numbers, DataType::kQ4_1, n, 1, 1);
  const std::vector<float> y = product.Run(*ScalarTable(), 0, 1);
  float s[4] = {};
  for (std::size_t b = 0; b < 7; ++b) {
    const float* x = product.x.data() + 32 * b;
    const std::uint8_t* block = product.weights.data() + 20 * b;
    float largest = 0.0f;
    for (std::size_t j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x[j]));
    const float d = largest / 127.0f;
    int products = 0, sum = 0;
    for (std::size_t j = 0; j < 32; ++j) {
      const int q = static_cast<int>(std::nearbyint(x[j] * (1.0f / d)));
      products += q * (j < 16 ? block[4 + j] & 15 : block[4 + j - 16] >> 4);
      sum += q;
    }
    std::uint16_t halves[2];
    std::memcpy(halves, block, 4);
    s[b % 4] = std::fma(static_cast<float>(products), F32FromF16(halves[0]) * d, s[b % 4]);
    s[b % 4] = std::fma(F32FromF16(halves[1]), d * static_cast<float>(sum), s[b % 4]);
  }
  EXPECT_EQ(BitsOf(y[0]), BitsOf((s[0] + s[2]) + (s[1] + s[3])));
}

}  // namespace
}  // namespace kvd::kernels
