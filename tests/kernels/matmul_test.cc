// Tests matrix products: every kernel table gives the bits of the scalar table, and a value depends
// neither on the rows beside it nor on the range of outputs.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/product_choice.h"
#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"
#include "tests/kernels/random_product.h"

namespace kvd::kernels {
namespace {

class MatmulTest : public TableTest {};

TEST_P(MatmulTest, GivesTheScalarBits) {
  Numbers numbers(11);
  for (const DataType type : kAllTypes) {
    for (const std::size_t n : kLengths) {
      if (n % ElementsPerBlock(type) != 0) continue;
      for (const std::size_t rows : kRowCounts) {
        const RandomProduct product(&numbers, type, n, 11, rows);
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
      const RandomProduct product(&numbers, type, n, 135, rows);
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
      RandomProduct product(&numbers, type, 512, 100, rows);
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
  const RandomProduct product(&numbers, DataType::kF16, 50001, 6, 7);
  ASSERT_TRUE(SameBits(product.Run(*scalar_, 0, 6), product.Run(*table_, 0, 6)));
  for (const DataType type : {DataType::kQ5_1, DataType::kQ6_K}) {
    const RandomProduct quantised(&numbers, type, 33 * 256, 70, 9);
    ASSERT_TRUE(SameBits(quantised.Run(*scalar_, 1, 70), quantised.Run(*table_, 1, 70)));
  }
}

TEST_P(MatmulTest, TakesMoreRowsThanAPass) {
  static_assert(kPassRows < 515 && kPanelElements < 1040);
  Numbers numbers(28);
  const RandomProduct product(&numbers, DataType::kF16, 1040, 66, 515);
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
        RandomProduct product(&numbers, type, n, outs, rows);
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

TEST_P(MatmulTest, ARowOfOuterProductsDoesNotDependOnOtherRows) {
  Numbers numbers(31);
  for (const DataType type : kPlainTypes) {
    const std::size_t rows = 31, outs = 33;
    RandomProduct product(&numbers, type, 700, outs, rows);
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

TEST_P(MatmulTest, ARowDoesNotDependOnOtherRows) {
  Numbers numbers(14);
  for (const DataType type : kAllTypes) {
    const std::size_t rows = 23, outs = 9;
    const RandomProduct product(&numbers, type, 512, outs, rows);
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
    const RandomProduct product(&numbers, DataType::kQ4_0, 256, 70, rows);
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
    const RandomProduct product(&numbers, DataType::kQ8_0, 64, 21, rows);
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
        const RandomProduct product(&numbers, type, n, outs, rows);
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
      const RandomProduct product(&numbers, DataType::kQ8_0, n, 1, rows);
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
  RandomProduct product(&numbers, DataType::kQ8_0, 160, 1, 1);
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
TEST_P(MatmulTest, AnInputThatIsNotFiniteAffectsOnlyItsRow) {
  Numbers numbers(21);
  for (const DataType type : kAllTypes) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (const std::size_t rows : {2u, 9u, 19u}) {
        const std::size_t outs = 5;
        RandomProduct product(&numbers, type, 512, outs, rows);
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
        const RandomProduct product(&numbers, type, n, 83, rows);
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
  RandomProduct product(&numbers, DataType::kQ6_K, 256, outs, 16);
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

KVD_FOR_EVERY_TABLE(MatmulTest);

}  // namespace
}  // namespace kvd::kernels
