// The scores and weighted values of the amx table, compared bit by bit with plain code that adds in
// the order defined in kernels/amx/pair_products.h.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "kernels/half.h"
#include "kernels/panels.h"
#include "kernels/quantized_row.h"
#include "tests/kernels/kernel_inputs.h"

namespace kvd::kernels::tile_attention_test {
namespace {

constexpr std::array<std::size_t, 8> kDims = {1, 16, 31, 64, 80, 96, 128, 256};
constexpr std::size_t kRowsMax = 33;
constexpr float kUntouched = 77.0f;

// Replaces a subnormal value by a zero of the same sign, as the instruction does.
float Flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

// The sum that one TDPBF16PS instruction adds. Add is called with elements 2k and 2k + 1 of both
// operands for each pair k.
class PairSum {
 public:
  void Add(float even_a, float even_b, float odd_a, float odd_b) {
    even_ = Flushed(std::fma(Flushed(even_a), Flushed(even_b), even_));
    odd_ = Flushed(std::fma(Flushed(odd_a), Flushed(odd_b), odd_));
  }
  float AddedTo(float sum) const { return Flushed(sum + Flushed(even_ + odd_)); }

 private:
  float even_ = 0.0f, odd_ = 0.0f;
};

class TileAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const KernelChoice amx = SelectOrTrap("amx");
    if (amx.table == nullptr) GTEST_SKIP() << amx.problem;
    table_ = amx.table;
    kernels_ = amx.table->bf16_attention;
  }
  const KernelTable* table_ = nullptr;
  const Bf16Attention* kernels_ = nullptr;
};

// Rounds a value to bf16 like panels and rows; subnormals become zeros.
float Rounded(float value) { return F32FromBF16(BF16FromF32(Flushed(value))); }

TEST_F(TileAttentionTest, ScoresAreSummedInOrderWhateverTheirNeighbours) {
  Numbers numbers(91);
  for (const std::size_t dim : kDims) {
    const std::vector<float> k = numbers.Row(kRunCells * dim), q = numbers.Row(kRowsMax * dim);
    std::vector<float> expected(kRowsMax * kRunCells);
    for (std::size_t r = 0; r < kRowsMax; ++r) {
      for (std::size_t c = 0; c < kRunCells; ++c) {
        const auto at = [&](const std::vector<float>& rows, std::size_t row, std::size_t d) {
          return d < dim ? Rounded(rows[row * dim + d]) : 0.0f;
        };
        float total = 0.0f;
        for (std::size_t step = 0; step < dim; step += 32) {
          PairSum sum;
          for (std::size_t d = step; d < step + 32; d += 2) {
            sum.Add(at(q, r, d), at(k, c, d), at(q, r, d + 1), at(k, c, d + 1));
          }
          total = sum.AddedTo(total);
        }
        expected[r * kRunCells + c] = 0.3f * total;
      }
    }
    for (std::size_t cells = 1; cells <= kRunCells; ++cells) {
      // The allocations of the panel and of the rows end with their last byte, so that a sanitizer
      // detects loads beyond them.
      const AlignedBytes panel = MakeAlignedBytes(Bf16KeyPanelBytes(dim));
      kernels_->key_panel(DataType::kF32, k.data(), cells, dim, panel.get());
      for (std::size_t rows = 1; rows <= kRowsMax; ++rows) {
        const AlignedBytes rounded = MakeAlignedBytes(rows * Bf16RowBytes(dim));
        table_->round_rows(q.data(), dim, rows, dim, rounded.get());
        const std::size_t stride = cells + rows % 3;
        std::vector<float> scores(rows * stride, kUntouched), wanted = scores;
        for (std::size_t r = 0; r < rows; ++r) {
          std::copy_n(&expected[r * kRunCells], cells, &wanted[r * stride]);
        }
        kernels_->scores(panel.get(), cells, dim, rounded.get(), rows, 0.3f, scores.data(), stride);
        ASSERT_TRUE(SameBits(wanted, scores))
            << "dim " << dim << ", " << cells << " cells, " << rows << " rows";
      }
    }
  }
}

TEST_F(TileAttentionTest, ValuesAreAddedInOrderWhateverTheirNeighbours) {
  Numbers numbers(92);
  const auto windows = [] {  // each: [first, end) of the panel, then [first, end) of the product
    std::vector<std::array<std::size_t, 4>> made;
    for (std::size_t end = 1; end <= kRunCells; ++end) made.push_back({0, end, 0, end});
    for (const std::size_t first : {1u, 2u, 7u, 16u, 31u}) {
      made.push_back({first, kRunCells, first, kRunCells});
      made.push_back({first, first + 1, first, first + 1});
      made.push_back({0, kRunCells, first, (first + kRunCells + 1) / 2});
    }
    return made;
  }();
  for (const std::size_t dim : kDims) {
    for (const auto& [panel_first, panel_end, first, end] : windows) {
      const std::vector<float> v = numbers.Row((panel_end - panel_first) * dim);
      const AlignedBytes panel = MakeAlignedBytes(Bf16ValuePanelBytes(dim));
      kernels_->value_panel(DataType::kF32, v.data(), dim * sizeof(float), panel_first, panel_end,
                            dim, panel.get());
      std::vector<std::uint16_t> p(kRowsMax * kRunCells);
      for (std::size_t r = 0; r < kRowsMax; ++r) {
        for (std::size_t c = first; c < end; ++c) {
          p[r * kRunCells + c] = BF16FromF32(std::fabs(numbers.Next()));
        }
      }
      const std::size_t stride = dim + 3;
      const std::vector<float> rescales = numbers.Row(kRowsMax);
      const std::vector<float> old = numbers.Row(kRowsMax * stride);
      std::vector<float> expected = old;
      for (std::size_t r = 0; r < kRowsMax; ++r) {
        for (std::size_t d = 0; d < dim; ++d) {
          const auto weight = [&](std::size_t c) { return F32FromBF16(p[r * kRunCells + c]); };
          const auto value = [&](std::size_t c) {
            const bool is_there = panel_first <= c && c < panel_end;
            return is_there ? Rounded(v[(c - panel_first) * dim + d]) : 0.0f;
          };
          PairSum sum;
          for (std::size_t c = first / 2 * 2; c < end; c += 2) {
            sum.Add(weight(c), value(c), weight(c + 1), value(c + 1));
          }
          float& to = expected[r * stride + d];
          to = std::fma(to, rescales[r], sum.AddedTo(0.0f));
        }
      }
      for (const std::size_t rows : {1u, 2u, 7u, 15u, 16u, 17u, 31u, 32u, 33u}) {
        std::vector<float> values(old.begin(),
                                  old.begin() + static_cast<std::ptrdiff_t>(rows * stride));
        const std::vector<std::uint16_t> weights(
            p.begin(), p.begin() + static_cast<std::ptrdiff_t>(rows * kRunCells));
        kernels_->add_values(panel.get(), first, end, dim, weights.data(), rescales.data(), rows,
                             values.data(), stride);
        const std::vector<float> wanted(
            expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(rows * stride));
        ASSERT_TRUE(SameBits(wanted, values))
            << "dim " << dim << ", cells " << first << " to " << end << ", " << rows << " rows";
      }
    }
  }
}

// The configuration of the tiles that an earlier call or a matrix product has left does not affect
// a call.
TEST_F(TileAttentionTest, CallsDoNotDependOnTilesOfEarlierCalls) {
  Numbers numbers(93);
  const std::size_t dim = 64;
  const std::vector<float> k = numbers.Row(kRunCells * dim), q = numbers.Row(kRowsMax * dim);
  const AlignedBytes panel = MakeAlignedBytes(Bf16KeyPanelBytes(dim));
  const AlignedBytes rounded = MakeAlignedBytes(kRowsMax * Bf16RowBytes(dim));
  kernels_->key_panel(DataType::kF32, k.data(), kRunCells, dim, panel.get());
  table_->round_rows(q.data(), dim, kRowsMax, dim, rounded.get());
  const auto scores = [&](std::size_t rows) {
    std::vector<float> made(rows * kRunCells);
    kernels_->scores(panel.get(), kRunCells, dim, rounded.get(), rows, 1.0f, made.data(),
                     kRunCells);
    return made;
  };
  const auto multiply = [&](DataType type) {
    const std::vector<std::uint8_t> weights = numbers.WeightRow(type, dim);
    const AlignedBytes quantized = MakeAlignedBytes(12 * QuantizedRowBytes(dim));
    table_->quantize_rows(q.data(), dim, 12, dim, quantized.get());
    const AlignedBytes workspace =
        MakeAlignedBytes((MatmulWorkspaceFloats(dim, 12) * sizeof(float) + 63) / 64 * 64);
    float y[12], *rows[12];
    for (std::size_t r = 0; r < 12; ++r) rows[r] = &y[r];
    table_->matmul({.weight_type = type,
                    .weights = weights.data(),
                    .in_features = dim,
                    .x = q.data(),
                    .x_stride = dim,
                    .quantized_x = quantized.get(),
                    .bf16_x = type == DataType::kF16 ? rounded.get() : nullptr,
                    .row_count = 12,
                    .y = rows,
                    .first_out = 0,
                    .last_out = 1,
                    .workspace = reinterpret_cast<float*>(workspace.get())});
  };
  const std::vector<float> twelve = scores(12), all = scores(kRowsMax);
  multiply(DataType::kQ8_0);
  EXPECT_TRUE(SameBits(all, scores(kRowsMax)));
  EXPECT_TRUE(SameBits(twelve, scores(12)));
  multiply(DataType::kF16);
  EXPECT_TRUE(SameBits(twelve, scores(12)));
  EXPECT_TRUE(SameBits(twelve, scores(12)));
  EXPECT_TRUE(SameBits(all, scores(kRowsMax)));
}

}  // namespace
}  // namespace kvd::kernels::tile_attention_test
