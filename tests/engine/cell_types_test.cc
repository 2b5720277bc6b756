// Tests cells of every data type, with different types for K and V: the logits have the same bits
// with any chunk size and kernel table and are close to those with f32 cells, and edits that
// rewrite keys work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "tests/kernels/trapped_tiles.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;

// Heads have 64 elements, which are two blocks of q8_0 or q4_0.
ModelShape WideHeads() {
  ModelShape shape = test::TinyLlama();
  shape.name = "tiny-heads-64";
  shape.embedding = 128;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 64;
  // With quantised weights, activations are quantised too, and a difference in the last bit of an
  // activation could become a whole quantisation step.
  shape.type = kernels::DataType::kF32;
  return shape;
}

double WorstNmse(const std::vector<float>& got, const std::vector<float>& expected,
                 std::size_t width) {
  double worst = 0;
  for (std::size_t row = 0; row < expected.size() / width; ++row) {
    double difference = 0, square = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      difference += std::pow(double{got[i]} - expected[i], 2);
      square += std::pow(double{expected[i]}, 2);
    }
    worst = std::max(worst, difference / square);
  }
  return worst;
}

// Returns the largest normalised squared error that the type of the cells may cause in a row of
// logits. Errors grow about ten times as much per layer in this model with random weights as in the
// models of the golden folders, whose limits are separate.
double ToleranceOf(DataType type) {
  if (type == DataType::kF16) return 2e-6;
  if (type == DataType::kBF16) return 1e-4;
  if (type == DataType::kQ4_0) return 2e-1;
  return type == DataType::kQ8_0 ? 5e-4 : 1e-12;
}

class CellTypesTest : public ::testing::TestWithParam<std::tuple<DataType, DataType>> {
 protected:
  static EngineOptions Options() {
    return {.cells = 1024,
            .threads = 2,
            .k_type = std::get<0>(GetParam()),
            .v_type = std::get<1>(GetParam()),
            .deterministic = true};
  }
};

TEST_P(CellTypesTest, EveryCellTypeGivesTheSameBitsInAnyChunksAndIsCloseToF32) {
  const auto tokens = RandomTokens(1, 75, 96);
  const auto wide = MakeEngine(
      WideHeads(),
      {.cells = 256, .k_type = DataType::kF32, .v_type = DataType::kF32, .deterministic = true});
  ASSERT_NE(wide, nullptr);
  const auto exact = Feed(*wide, *wide->memory().sequences().Create({}), tokens, tokens.size());
  std::vector<float> truth;
  for (const kernels::KernelTable* table :
       {kernels::ScalarTable(), kernels::Avx2Table(), kernels::Avx512Table(),
        kernels::SelectOrTrap("amx").table}) {
    if (table == nullptr) continue;
    EngineOptions options = Options();
    options.kernel_table = table->name;
    const auto engine = MakeEngine(WideHeads(), options);
    ASSERT_NE(engine, nullptr);
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, tokens.size()}) {
      const auto logits = Feed(*engine, *engine->memory().sequences().Create({}), tokens, chunk);
      if (truth.empty()) truth = logits;
      EXPECT_TRUE(SameBits(logits, truth)) << table->name << ", chunks of " << chunk;
    }
  }
  const double tolerance =
      std::max(ToleranceOf(std::get<0>(GetParam())), ToleranceOf(std::get<1>(GetParam())));
  EXPECT_LT(WorstNmse(truth, exact, 96), tolerance);
}

TEST_P(CellTypesTest, RewrittenCellsWithTheSamePositionKeepTheirBits) {
  const auto engine = MakeEngine(WideHeads(), Options());
  ASSERT_NE(engine, nullptr);
  const SequenceHandle divided = *engine->memory().sequences().Create({});
  Feed(*engine, divided, RandomTokens(2, 40, 96), 40);
  SequenceHandle sibling = SequenceHandle::kNone;
  ASSERT_TRUE(engine->memory().sequences().Fork(divided, {}, {&sibling, 1}));
  // Position 0 divided by 2 is 0, so the key is copied to the new cell without a rotation.
  ASSERT_EQ(*engine->Divide(divided, {.begin = Pos{0}, .end = Pos{1}}, 2), 1u);
  EXPECT_EQ(engine->memory().sequences().QueryUse(divided)->shared_cells, 39u);
  const auto next = RandomTokens(3, 6, 96);
  EXPECT_TRUE(SameBits(Feed(*engine, divided, next, 6), Feed(*engine, sibling, next, 6)));
}

TEST_P(CellTypesTest, AShiftDoesNotChangeTheBitsOfASibling) {
  const auto engine = MakeEngine(WideHeads(), Options());
  ASSERT_NE(engine, nullptr);
  const SequenceHandle shifted = *engine->memory().sequences().Create({});
  Feed(*engine, shifted, RandomTokens(6, 70, 96), 64);
  SequenceHandle siblings[2];
  ASSERT_TRUE(engine->memory().sequences().Fork(shifted, {}, siblings));
  const auto next = RandomTokens(7, 6, 96);
  const auto before = Feed(*engine, siblings[0], next, 6);
  ASSERT_EQ(*engine->memory().sequences().RemoveRange(shifted, {.begin = Pos{5}, .end = Pos{25}}),
            20u);
  ASSERT_TRUE(
      engine->memory().sequences().AddPositions(shifted, {.begin = Pos{25}, .end = kPosEnd}, -20));
  EXPECT_FALSE(SameBits(Feed(*engine, shifted, next, 6), before));
  EXPECT_TRUE(SameBits(Feed(*engine, siblings[1], next, 6), before));
}

TEST_P(CellTypesTest, KeysRotatedToOtherPositionsAreCloseToF32Cells) {
  const auto tokens = RandomTokens(4, 60, 96), next = RandomTokens(5, 5, 96);
  const auto run = [&](const EngineOptions& options) {
    const auto engine = MakeEngine(WideHeads(), options);
    const SequenceHandle sequence = *engine->memory().sequences().Create({});
    Feed(*engine, sequence, tokens, 60);
    EXPECT_EQ(*engine->Divide(sequence, {.begin = Pos{0}, .end = kPosEnd}, 3), 60u);
    return Feed(*engine, sequence, next, 5);
  };
  EngineOptions exact = Options();
  exact.k_type = exact.v_type = DataType::kF32;
  const double tolerance =
      std::max(ToleranceOf(std::get<0>(GetParam())), ToleranceOf(std::get<1>(GetParam())));
  EXPECT_LT(WorstNmse(run(Options()), run(exact), 96), tolerance);
}

INSTANTIATE_TEST_SUITE_P(KAndV, CellTypesTest,
                         ::testing::Values(std::tuple(DataType::kQ8_0, DataType::kQ8_0),
                                           std::tuple(DataType::kQ8_0, DataType::kF16),
                                           std::tuple(DataType::kF32, DataType::kQ8_0),
                                           std::tuple(DataType::kQ4_0, DataType::kQ4_0),
                                           std::tuple(DataType::kQ8_0, DataType::kQ4_0),
                                           std::tuple(DataType::kBF16, DataType::kF32),
                                           std::tuple(DataType::kF16, DataType::kBF16)),
                         [](const auto& tested) {
                           return std::string(kernels::DataTypeName(std::get<0>(tested.param))) +
                                  "_" + kernels::DataTypeName(std::get<1>(tested.param));
                         });

TEST(CellTypeOptionTest, HeadLengthsThatNoBlockDividesAreRefusedByTheNameOfTheOption) {
  const std::string path = test::TinyModelPath(test::TinyLlama());  // heads of 16 elements
  const auto k = Engine::Create({.model_path = path, .k_type = DataType::kQ8_0});
  ASSERT_FALSE(k);
  EXPECT_EQ(k.error().code, Code::kUnsupported);
  EXPECT_THAT(k.error().message, ::testing::HasSubstr("cache-type-k q8_0"));
  EXPECT_THAT(k.error().message, ::testing::HasSubstr("heads have 16"));
  const auto v = Engine::Create({.model_path = path, .v_type = DataType::kQ8_0});
  ASSERT_FALSE(v);
  EXPECT_THAT(v.error().message, ::testing::HasSubstr("cache-type-v q8_0"));
  const auto q4_1 = Engine::Create({.model_path = path, .v_type = DataType::kQ4_1});
  ASSERT_FALSE(q4_1);
  EXPECT_THAT(q4_1.error().message, ::testing::HasSubstr("cache-type-v q4_1"));
}

}  // namespace
}  // namespace kvd
