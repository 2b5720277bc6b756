#include <limits>

#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/naive_decode.h"
#include "tests/support/test_scale.h"

namespace kvd::kernels {
namespace {

class DecodeTest : public TableTest {};
class EncodeTest : public TableTest {};

TEST_P(DecodeTest, ADecodedValueIsRoundedOnce) {
  Numbers numbers(1);
  for (const DataType type : kAllTypes) {
    for (const std::size_t n : kLengths) {
      if (n % ElementsPerBlock(type) != 0) continue;
      for (int repetition = 0; repetition < test::Scaled(8); ++repetition) {
        const std::vector<std::uint8_t> row = numbers.WeightRow(type, n);
        const Misaligned<std::uint8_t> source(row, type == DataType::kF32 ? 4 : 2);
        std::vector<float> decoded(n, 77.0f);
        table_->decode_row(type, source.get(), decoded.data(), n);
        for (std::size_t j = 0; j < n; ++j) {
          ASSERT_EQ(decoded[j], static_cast<float>(NaiveElement(type, row.data(), j)))
              << DataTypeName(type) << " element " << j << " of " << n;
        }
      }
    }
  }
}

TEST_P(DecodeTest, GivesTheScalarBitsForAnyBits) {
  Numbers numbers(2);
  for (const DataType type : kAllTypes) {
    for (int repetition = 0; repetition < test::Scaled(200); ++repetition) {
      const std::size_t n = 256;
      std::vector<std::uint8_t> row = numbers.WeightRow(type, n);
      if (type == DataType::kF32 || type == DataType::kF16 || type == DataType::kBF16) {
        for (std::uint8_t& byte : row) byte = numbers.Byte();  // includes infinities and NaNs
      }
      std::vector<float> expected(n), actual(n);
      scalar_->decode_row(type, row.data(), expected.data(), n);
      table_->decode_row(type, row.data(), actual.data(), n);
      ASSERT_TRUE(SameBits(expected, actual)) << DataTypeName(type);
    }
  }
}

TEST_P(DecodeTest, WritesNothingBeyondTheRow) {
  Numbers numbers(3);
  for (const DataType type : kAllTypes) {
    for (const std::size_t n : kLengths) {
      if (n % ElementsPerBlock(type) != 0) continue;
      const std::vector<std::uint8_t> row = numbers.WeightRow(type, n);
      std::vector<float> decoded(n + 16, 77.0f);
      table_->decode_row(type, row.data(), decoded.data(), n);
      for (std::size_t j = n; j < n + 16; ++j) ASSERT_EQ(decoded[j], 77.0f) << DataTypeName(type);
    }
  }
}

TEST_P(EncodeTest, GivesTheScalarBytesAndVerdict) {
  Numbers numbers(4);
  for (const DataType type : kCellTypes) {
    for (const std::size_t n : kLengths) {
      if (n % ElementsPerBlock(type) != 0) continue;
      for (int repetition = 0; repetition < test::Scaled(20); ++repetition) {
        std::vector<float> row = numbers.Row(n);
        if (n != 0 && repetition % 4 == 1) {  // one element has random bits
          row[numbers.Byte() % n] = std::bit_cast<float>(numbers.Bits());
        }
        if (repetition % 4 == 2) {
          for (float& value : row) value *= 0x1p-130f;
        }
        if (repetition % 4 == 3) {
          for (float& value : row) value *= 40000.0f;
        }
        const Misaligned<float> source(row, 4);
        std::vector<std::uint8_t> expected(RowBytes(type, n) + 8, 0xab), actual = expected;
        const bool expected_finite = scalar_->encode_row(type, source.get(), expected.data(), n);
        const bool actual_finite = table_->encode_row(type, source.get(), actual.data(), n);
        ASSERT_EQ(expected, actual) << DataTypeName(type) << " of " << n;
        ASSERT_EQ(expected_finite, actual_finite) << DataTypeName(type) << " of " << n;
      }
    }
  }
}

TEST_P(EncodeTest, ValuesThatTheTypeCanHoldAreExact) {
  Numbers numbers(5);
  const std::size_t n = 96;
  for (const DataType type : kCellTypes) {
    const std::vector<float> row = numbers.Row(n);
    std::vector<std::uint8_t> encoded(RowBytes(type, n));
    ASSERT_TRUE(table_->encode_row(type, row.data(), encoded.data(), n));
    std::vector<float> decoded(n);
    table_->decode_row(type, encoded.data(), decoded.data(), n);
    for (std::size_t j = 0; j < n; ++j) {
      float largest = 0;
      for (std::size_t i = j / 32 * 32; i < j / 32 * 32 + 32; ++i)
        largest = std::max(largest, std::fabs(row[i]));
      const float allowed = type == DataType::kF32    ? 0.0f
                            : type == DataType::kF16  ? std::fabs(row[j]) * 0x1p-11f + 0x1p-25f
                            : type == DataType::kBF16 ? std::fabs(row[j]) * 0x1p-8f + 0x1p-134f
                            : type == DataType::kQ4_0 ? largest / 8.0f * 1.001f
                                                      : largest / 127.0f * 0.5f + largest * 0.001f;
      ASSERT_LE(std::fabs(decoded[j] - row[j]), allowed) << DataTypeName(type);
    }
    // Encoding the decoded numbers yields the original bytes.
    if (IsQuantized(type)) continue;
    std::vector<std::uint8_t> again(encoded.size());
    ASSERT_TRUE(table_->encode_row(type, decoded.data(), again.data(), n));
    EXPECT_EQ(encoded, again);
  }
}

TEST_P(EncodeTest, ValuesNotFiniteBeforeOrAfterEncodingAreReported) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto encodes = [&](DataType type, std::size_t n, std::size_t at, float value) {
    std::vector<float> row(n, 1.0f);
    row[at] = value;
    std::vector<std::uint8_t> encoded(RowBytes(type, n));
    return table_->encode_row(type, row.data(), encoded.data(), n);
  };
  for (const DataType type : kCellTypes) {
    for (const std::size_t n : {std::size_t{32}, std::size_t{64}, std::size_t{96}}) {
      for (std::size_t at = 0; at < n; at += 7) {
        EXPECT_TRUE(encodes(type, n, at, -3.0f));
        for (const float bad : {infinity, -infinity, nan, -nan}) {
          EXPECT_FALSE(encodes(type, n, at, bad)) << DataTypeName(type) << " at " << at;
        }
      }
    }
  }
  EXPECT_TRUE(encodes(DataType::kF16, 5, 4, 65519.0f));  // rounds to 65504, the largest f16
  EXPECT_FALSE(encodes(DataType::kF16, 5, 4, 65520.0f));
  EXPECT_FALSE(encodes(DataType::kF16, 33, 32, -1e6f));
  EXPECT_TRUE(encodes(DataType::kBF16, 5, 4, 0x1.fep127f));
  EXPECT_FALSE(encodes(DataType::kBF16, 5, 4, 0x1.ffp127f));
  EXPECT_TRUE(encodes(DataType::kQ8_0, 32, 9, 65519.0f * 127.0f));
  EXPECT_FALSE(encodes(DataType::kQ8_0, 32, 9, 65521.0f * 127.0f));
  EXPECT_TRUE(encodes(DataType::kQ4_0, 32, 9, 65519.0f * 8.0f));
  EXPECT_FALSE(encodes(DataType::kQ4_0, 32, 9, -65521.0f * 8.0f));
  EXPECT_TRUE(encodes(DataType::kF32, 5, 4, 0x1.fffffep127f));
}

TEST_P(EncodeTest, RoundsQ8_0HalvesAwayFromZero) {
  std::vector<float> row(32, 0.0f);
  row[0] = 127.0f;  // d = 1
  row[1] = 0.5f, row[2] = -0.5f, row[3] = 1.5f, row[4] = -2.5f, row[5] = 0.49999997f;
  std::vector<std::uint8_t> encoded(34);
  ASSERT_TRUE(table_->encode_row(DataType::kQ8_0, row.data(), encoded.data(), 32));
  const auto q = [&](std::size_t j) { return static_cast<std::int8_t>(encoded[2 + j]); };
  EXPECT_EQ(q(0), 127);
  EXPECT_EQ(q(1), 1);
  EXPECT_EQ(q(2), -1);
  EXPECT_EQ(q(3), 2);
  EXPECT_EQ(q(4), -3);
  EXPECT_EQ(q(5), 0);
}

TEST_P(EncodeTest, TheFirstExtremeOfQ4_0HasItsOwnSign) {
  std::vector<float> row(32, 0.0f);
  row[3] = -8.0f, row[20] = 8.0f;  // d = 1
  row[4] = 0.49f, row[5] = 0.5f, row[6] = -0.51f, row[7] = 7.9f;
  std::vector<std::uint8_t> encoded(18);
  ASSERT_TRUE(table_->encode_row(DataType::kQ4_0, row.data(), encoded.data(), 32));
  const auto q = [&](std::size_t j) { return encoded[2 + j % 16] >> (j / 16 * 4) & 15; };
  EXPECT_EQ(encoded[1], 0x3c);  // 1 in f16
  EXPECT_EQ(q(3), 0);
  EXPECT_EQ(q(20), 15);
  EXPECT_EQ(q(0), 8);
  EXPECT_EQ(q(4), 8);
  EXPECT_EQ(q(5), 9);
  EXPECT_EQ(q(6), 7);
  EXPECT_EQ(q(7), 15);
  row[20] = 0.0f, row[3] = 8.0f;  // d = -1
  ASSERT_TRUE(table_->encode_row(DataType::kQ4_0, row.data(), encoded.data(), 32));
  EXPECT_EQ(encoded[1], 0xbc);
  EXPECT_EQ(q(3), 0);
  EXPECT_EQ(q(7), 0);
}

TEST_P(EncodeTest, RefusesTypesThatCellsDoNotHave) {
  const std::vector<float> row(256, 1.0f);
  std::vector<std::uint8_t> encoded(RowBytes(DataType::kQ6_K, 256));
  for (const DataType type : {DataType::kQ4_1, DataType::kQ5_1, DataType::kQ4_K, DataType::kQ6_K}) {
    EXPECT_FALSE(table_->encode_row(type, row.data(), encoded.data(), 256));
  }
}

KVD_FOR_EVERY_TABLE(DecodeTest);
KVD_FOR_EVERY_TABLE(EncodeTest);

TEST(HalfTest, EveryHalfIsConvertedBackUnchanged) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool f16_nan = (bits & 0x7fff) > 0x7c00, bf16_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(F16FromF32(F32FromF16(half)), f16_nan ? (half | 0x200) : half);
    ASSERT_EQ(BF16FromF32(F32FromBF16(half)), bf16_nan ? (half | 0x40) : half);
  }
}

TEST(HalfTest, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (F32FromF16(low) + F32FromF16(high)) / 2;  // this value is exact in f32
    ASSERT_EQ(F16FromF32(middle), bits % 2 == 0 ? low : high);
    ASSERT_EQ(F16FromF32(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(F16FromF32(std::nextafter(middle, 1e9f)), high);
  }
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const std::uint32_t middle = bits << 16 | 0x8000u;
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    ASSERT_EQ(BF16FromF32(std::bit_cast<float>(middle)), bits % 2 == 0 ? low : high);
    ASSERT_EQ(BF16FromF32(std::bit_cast<float>(middle - 1)), low);
    ASSERT_EQ(BF16FromF32(std::bit_cast<float>(middle + 1)), high);
  }
}

}  // namespace
}  // namespace kvd::kernels
