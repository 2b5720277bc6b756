// Tests the quantisation of activation rows to int8 (kernels/quantized_row.h): every kernel table
// writes the same bytes as the scalar table.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/quantized_row.h"
#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels {
namespace {

class QuantizeTest : public TableTest {
 protected:
  void ExpectScalarBytes(const std::vector<float>& x, std::size_t rows, std::size_t n) {
    const std::size_t stride = x.size() / rows, byte_count = rows * QuantizedRowBytes(n);
    const Misaligned<float> from(x, 4);
    const AlignedBytes expected = MakeAlignedBytes(byte_count), got = MakeAlignedBytes(byte_count);
    scalar_->quantize_rows(from.get(), stride, rows, n, expected.get());
    table_->quantize_rows(from.get(), stride, rows, n, got.get());
    EXPECT_EQ(std::memcmp(expected.get(), got.get(), byte_count), 0) << rows << " rows of " << n;
  }
};

TEST_P(QuantizeTest, RowsOfAnyNumbersGiveTheScalarBytes) {
  Numbers numbers(41);
  for (const std::size_t n : {0u, 32u, 64u, 480u, 512u, 544u, 1024u, 1536u, 2080u}) {
    for (const std::size_t rows : {1u, 2u, 3u}) {
      std::vector<float> x = numbers.Row(rows * (n + 5));
      // Makes some blocks zero, some with a subnormal scale, and some with large numbers.
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t kind = i / 32 % 11;
        if (kind == 3) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
        if (kind == 5) x[i] *= 0x1p-125f;
        if (kind == 7) x[i] *= 0x1p125f;
      }
      ExpectScalarBytes(x, rows, n);
    }
  }
}

TEST_P(QuantizeTest, ABlockThatIsNotFiniteAffectsNoOther) {
  Numbers numbers(42);
  constexpr std::size_t kElements = 1600;
  for (const float bad : {std::numeric_limits<float>::infinity(), -INFINITY, NAN, -NAN}) {
    for (std::size_t at = 0; at < kElements; at += 77) {
      std::vector<float> x = numbers.Row(2 * kElements);
      x[at] = bad;
      ExpectScalarBytes(x, 2, kElements);
    }
  }
}

KVD_FOR_EVERY_TABLE(QuantizeTest);

}  // namespace
}  // namespace kvd::kernels
