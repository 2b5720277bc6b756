// Tests a model with short and long rotation factors (LongRoPE): the length of a sequence
// determines the rotation of its keys, independently of its chunk sizes and of its forks
// (docs/decisions/0008).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;

constexpr std::uint32_t kLongFrom = 64;

ModelShape LongRope(std::uint32_t original_context, std::uint32_t layers) {
  ModelShape shape = test::TinyLlama();
  shape.name = "long-rope-" + std::to_string(original_context) + "-" + std::to_string(layers);
  shape.architecture = Architecture::kPhi3;
  shape.layers = layers;
  shape.rope_scaling = RopeScaling::kLongRope;
  shape.rope_factor = 16.0f;
  shape.rope_original_context = original_context;
  // With quantised weights, activations are quantised too, and a difference in the last bit of an
  // activation could become a whole quantisation step.
  shape.type = kernels::DataType::kF32;
  return shape;
}

EngineOptions F32Cells() {
  return {.cells = 1024,
          .threads = 1,
          .k_type = DataType::kF32,
          .v_type = DataType::kF32,
          .deterministic = true};
}

double Nmse(std::span<const float> got, std::span<const float> expected) {
  double difference = 0, square = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    square += std::pow(static_cast<double>(expected[i]), 2);
  }
  return difference / square;
}

class KeyFormTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = MakeEngine(LongRope(kLongFrom, 3), F32Cells());
    ASSERT_NE(engine_, nullptr);
  }
  SequenceHandle Create() { return *engine_->memory().sequences().Create({}); }
  SequenceHandle Fork(SequenceHandle source) {
    SequenceHandle fork = SequenceHandle::kNone;
    EXPECT_TRUE(engine_->memory().sequences().Fork(source, {}, {&fork, 1}).has_value());
    return fork;
  }
  Status Step(SequenceHandle sequence, std::int32_t pos, std::span<const TokenId> tokens) {
    StepItem item{
        .sequence = sequence, .pos = Pos{pos}, .tokens = tokens, .first_logits_row = tokens.size()};
    engine_->Step({&item, 1});
    return item.status;
  }

  std::unique_ptr<Engine> engine_;
};

// In a model with one layer a key depends only on its token and position. From position kLongFrom
// on, the logits are therefore close to those of a model that uses the long factors from the start.
TEST_F(KeyFormTest, BeyondTheLimitAllKeysHaveTheLongRotation) {
  const auto crossing = MakeEngine(LongRope(kLongFrom, 1), F32Cells());
  const auto always_long = MakeEngine(LongRope(1, 1), F32Cells());
  ASSERT_TRUE(crossing != nullptr && always_long != nullptr);
  const auto tokens = RandomTokens(1, 100, 96);
  const auto got = Feed(*crossing, *crossing->memory().sequences().Create({}), tokens, 33);
  const auto expected =
      Feed(*always_long, *always_long->memory().sequences().Create({}), tokens, 33);
  const std::size_t limit = kLongFrom * 96;
  EXPECT_LT(Nmse(std::span(got).subspan(limit), std::span(expected).subspan(limit)), 1e-10);
  EXPECT_GT(Nmse(std::span(got).subspan(limit / 2, limit / 2),
                 std::span(expected).subspan(limit / 2, limit / 2)),
            1e-6);
}

TEST_F(KeyFormTest, AStepMustNotCrossTheLimit) {
  EXPECT_EQ(engine_->StepTokens(60, Pos{60}, 100), 4u);
  EXPECT_EQ(engine_->StepTokens(60, Pos{60}, 3), 3u);
  EXPECT_EQ(engine_->StepTokens(64, Pos{64}, 100), 100u);
  EXPECT_EQ(engine_->StepTokens(10, Pos{300}, 100), 100u);
  const SequenceHandle sequence = Create();
  const auto tokens = RandomTokens(2, 100, 96);
  const Status crossing = Step(sequence, 0, tokens);
  ASSERT_FALSE(crossing.has_value());
  EXPECT_EQ(crossing.error().code, Code::kInvalidArgument);
  EXPECT_NE(crossing.error().message.find("a step may not pass position 64"), std::string::npos);
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cell_count, 0u);
}

// Preparing a sequence in slices gives the same bits as Step, which prepares it at once.
TEST_F(KeyFormTest, ASequenceIsPreparedInSlices) {
  const auto prompt = RandomTokens(6, 64, 96);
  const auto next = RandomTokens(7, 4, 96);
  const SequenceHandle whole = Create();
  const SequenceHandle sliced = Create();
  EXPECT_EQ(engine_->CellsToPrepare(sliced), 0u);
  Feed(*engine_, whole, prompt, 64);
  Feed(*engine_, sliced, prompt, 64);
  EXPECT_EQ(engine_->CellsToPrepare(sliced), 64u);
  const auto work = engine_->StartPreparing(sliced);
  ASSERT_TRUE(work.has_value()) << work.error().message;
  int slices = 0;
  for (; (*work)->tokens_left() > 0; ++slices) ASSERT_TRUE((*work)->Advance(10).has_value());
  EXPECT_EQ(slices, 7);
  EXPECT_EQ(engine_->CellsToPrepare(sliced), 0u);
  EXPECT_EQ(engine_->CellsToPrepare(whole), 64u);
  EXPECT_TRUE(SameBits(Feed(*engine_, sliced, next, 4), Feed(*engine_, whole, next, 4)));
  EXPECT_EQ(engine_->CellsToPrepare(SequenceHandle::kNone), 0u);
  EXPECT_EQ((*engine_->StartPreparing(sliced))->tokens_left(), 0u);
}

TEST_F(KeyFormTest, ForksWithinTheLimitKeepTheirCells) {
  const auto prefix = RandomTokens(3, 60, 96);
  const auto next = RandomTokens(4, 4, 96);
  const SequenceHandle base = Create();
  Feed(*engine_, base, prefix, 64);
  const SequenceHandle longer = Fork(base);
  Feed(*engine_, longer, RandomTokens(5, 40, 96), 7);
  EXPECT_EQ(engine_->memory().sequences().QueryUse(longer)->shared_cells, 0u)
      << "its keys are rewritten at position 64";
  const SequenceHandle fresh = Create();
  Feed(*engine_, fresh, prefix, 5);
  EXPECT_TRUE(SameBits(Feed(*engine_, base, next, 4), Feed(*engine_, fresh, next, 1)));
}

TEST_F(KeyFormTest, ALongSequenceCutBelowTheLimitReturnsToTheShortRotation) {
  const auto tokens = RandomTokens(6, 90, 96);
  const auto next = RandomTokens(7, 10, 96);
  const SequenceHandle cut = Create();
  Feed(*engine_, cut, tokens, 90);
  ASSERT_TRUE(engine_->memory()
                  .sequences()
                  .RemoveRange(cut, {.begin = Pos{40}, .end = kPosEnd})
                  .has_value());
  const SequenceHandle fresh = Create();
  Feed(*engine_, fresh, {tokens.begin(), tokens.begin() + 40}, 64);
  EXPECT_LT(Nmse(Feed(*engine_, cut, next, 10), Feed(*engine_, fresh, next, 10)), 1e-9);
}

TEST_F(KeyFormTest, ACopyOfCellsOfBothRotationsGetsOneRotation) {
  const auto tokens = RandomTokens(8, 90, 96);
  const auto next = RandomTokens(9, 5, 96);
  const SequenceHandle source = Create();
  Feed(*engine_, source, tokens, 90);
  // `mixed` has twenty computed cells in the short form and ten cells copied from a sequence in the
  // long form.
  const SequenceHandle mixed = Create();
  Feed(*engine_, mixed, {tokens.begin(), tokens.begin() + 20}, 64);
  ASSERT_TRUE(engine_->memory()
                  .sequences()
                  .CopyRange(source, mixed, {.begin = Pos{20}, .end = Pos{30}})
                  .has_value());
  const auto got = Feed(*engine_, mixed, next, 5);
  const SequenceHandle fresh = Create();
  Feed(*engine_, fresh, {tokens.begin(), tokens.begin() + 30}, 64);
  EXPECT_LT(Nmse(got, Feed(*engine_, fresh, next, 5)), 1e-9);
}

TEST_F(KeyFormTest, WithoutRoomForTheRewrittenCellsNothingChanges) {
  EngineOptions options = F32Cells();
  options.cells = 128;
  engine_ = MakeEngine(LongRope(kLongFrom, 3), options);
  const auto tokens = RandomTokens(10, 64, 96);
  const SequenceHandle sequence = Create();
  Feed(*engine_, sequence, tokens, 64);
  Feed(*engine_, Create(), RandomTokens(11, 33, 96), 64);  // uses the other two of the four blocks
  const Status full = Step(sequence, 64, std::span(tokens).first(1));
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, Code::kNoSpace) << full.error().message;
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cell_count, 64u);
}

TEST_F(KeyFormTest, DividingAndShiftingKeepTheRotation) {
  const auto tokens = RandomTokens(12, 90, 96);
  const SequenceHandle sequence = Create();
  Feed(*engine_, sequence, tokens, 90);
  ASSERT_TRUE(engine_->memory()
                  .sequences()
                  .AddPositions(sequence, {.begin = Pos{0}, .end = kPosEnd}, 100)
                  .has_value());
  const SequenceHandle divided = Fork(sequence);
  ASSERT_TRUE(engine_->Divide(divided, {.begin = Pos{0}, .end = kPosEnd}, 1).has_value());
  // A shift of all cells changes no difference of positions, so the logits keep their bits.
  const auto next = RandomTokens(13, 6, 96);
  const SequenceHandle plain = Create();
  Feed(*engine_, plain, tokens, 90);
  EXPECT_TRUE(SameBits(Feed(*engine_, sequence, next, 6), Feed(*engine_, plain, next, 6)));
  // The division brings the length below kLongFrom, so the keys get the short rotation again.
  ASSERT_TRUE(engine_->Divide(divided, {.begin = Pos{0}, .end = kPosEnd}, 4).has_value());
  EXPECT_EQ(engine_->memory().sequences().Query(divided)->next_pos, Pos{48});
  EXPECT_EQ(Feed(*engine_, divided, next, 6).size(), 6u * 96u);
}

}  // namespace
}  // namespace kvd
