// Tests that the timer computes bounded parts of the right products. No time is compared.
#include "engine/tuning/matrix_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "engine/forward/compute/thread_pool.h"

namespace kvd {
namespace {

using kernels::DataType;

// What the functions below, which are in a kernel table, have counted.
std::atomic<std::size_t> calls, calls_in_bf16, calls_in_outer, products_max;

void CountedMatmul(const kernels::MatmulArgs& args) {
  ++calls;
  if (args.bf16_x != nullptr) ++calls_in_bf16;
  if (args.outer_products) ++calls_in_outer;
  const std::size_t products = (args.last_out - args.first_out) * args.row_count * args.in_features;
  std::size_t old = products_max;
  while (old < products && !products_max.compare_exchange_weak(old, products)) {
  }
  kernels::SelectKernels(nullptr).table->matmul(args);
}

class MatrixTimerTest : public testing::Test {
 protected:
  MatrixTimerTest()
      : pool_(2),
        table_(*kernels::SelectKernels(nullptr).table),
        wide_(std::size_t{4096} * kWide * 2),
        narrow_(std::size_t{64} * kNarrow * 2) {
    calls = calls_in_bf16 = calls_in_outer = products_max = 0;
    table_.matmul = CountedMatmul;
    const std::size_t floats = (kernels::MatmulWorkspaceFloats(kWide, 512) + 15) / 16 * 16;
    workspaces_ = FloatBuffer(2 * floats);
    compute_.kernels = &table_;
    compute_.pool = &pool_;
    compute_.choices = kernels::DefaultChoices(table_);
    compute_.workspaces = workspaces_.data();
    compute_.workspace_floats = floats;
    tensors_ = {Tensor("norm", DataType::kF32, 1, kNarrow, 1, narrow_),
                Tensor("narrow", DataType::kF16, 2, kNarrow, 64, narrow_),
                Tensor("wide", DataType::kF16, 2, kWide, 4096, wide_),
                Tensor("too_wide", DataType::kQ8_0, 2, 2 * kWide, 64, narrow_),
                Tensor("flat", DataType::kBF16, 2, kNarrow, 8, narrow_)};
  }
  static GgufTensor Tensor(std::string_view name, DataType type, std::uint32_t rank, std::size_t in,
                           std::size_t out, const std::vector<std::byte>& bytes) {
    return {.name = name,
            .type = type,
            .rank = rank,
            .dims = {in, out, 1, 1},
            .bytes = kernels::RowBytes(type, in) * out,
            .data = bytes.data()};
  }

  static std::optional<double> PreparedTime(MatrixTimer& timer, const TimedProduct& product) {
    while (!timer.Prepare(product)) {
    }
    return timer.Time(product);
  }

  static constexpr std::size_t kWide = 1024, kNarrow = 64;
  ThreadPool pool_;
  kernels::KernelTable table_;
  const std::vector<std::byte> wide_, narrow_;
  FloatBuffer workspaces_;
  Compute compute_;
  std::vector<GgufTensor> tensors_;
};

TEST_F(MatrixTimerTest, OnlyTypesOfUsableMatricesAreTimed) {
  MatrixTimer timer(compute_, tensors_, kWide, false);
  EXPECT_EQ(timer.types(), std::vector{DataType::kF16});
  EXPECT_FALSE(PreparedTime(timer, {.type = DataType::kQ8_0, .rows = 1, .choice = {}}));
  EXPECT_EQ(calls, 0u);
}

TEST_F(MatrixTimerTest, ACallComputesABoundedPart) {
  for (const bool reads_weights : {false, true}) {
    MatrixTimer timer(compute_, tensors_, kWide, reads_weights);
    for (const std::uint32_t rows : {1u, 2u, 64u, 256u, 8u}) {
      for (int i = 0; i < 10; ++i) {
        const std::size_t before = calls;
        const auto seconds =
            PreparedTime(timer, {.type = DataType::kF16, .rows = rows, .choice = {}});
        ASSERT_TRUE(seconds);
        EXPECT_GT(*seconds, 0.0);
        EXPECT_LE(calls - before, 4u);  // a first part and a part of about a millisecond
      }
    }
  }
  EXPECT_GT(products_max, 0u);
  EXPECT_LE(products_max, MatrixTimer::kSliceProducts);
}

TEST_F(MatrixTimerTest, RowsArePreparedInBoundedParts) {
  MatrixTimer timer(compute_, tensors_, kWide, false);
  const TimedProduct product{.type = DataType::kF16, .rows = 256, .choice = {}};
  std::size_t parts = 1;
  while (!timer.Prepare(product)) ++parts;
  EXPECT_EQ(parts, 256 * kWide / MatrixTimer::kPreparedElements);
  EXPECT_TRUE(timer.Prepare(product));
}

TEST_F(MatrixTimerTest, OuterProductsAreComputedIfChosen) {
  MatrixTimer timer(compute_, tensors_, kWide, false);
  for (const std::uint32_t from_rows : {17u, 16u}) {
    (void)PreparedTime(
        timer, {.type = DataType::kF16,
                .rows = 16,
                .choice = {.wide_form = kernels::WideForm::kOuter, .wide_from_rows = from_rows}});
    EXPECT_EQ(calls_in_outer, from_rows == 16 ? 4u : 0u);
  }
  EXPECT_EQ(calls_in_bf16, 0u);
}

TEST_F(MatrixTimerTest, TheChosenProductIsComputed) {
  if (!kernels::Supports(table_, DataType::kF16, kernels::WideForm::kBf16)) {
    GTEST_SKIP() << "the machine lacks AVX512_BF16";
  }
  MatrixTimer timer(compute_, tensors_, kWide, false);
  (void)PreparedTime(timer, {.type = DataType::kF16, .rows = 16, .choice = {}});
  EXPECT_EQ(calls_in_bf16, 0u);
  (void)PreparedTime(timer,
                     {.type = DataType::kF16,
                      .rows = 16,
                      .choice = {.wide_form = kernels::WideForm::kBf16, .wide_from_rows = 1}});
  EXPECT_EQ(calls_in_bf16, 4u);
}

}  // namespace
}  // namespace kvd
