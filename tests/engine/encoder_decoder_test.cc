// Tests models with an encoder and a decoder: encoding the text of a sequence, sharing it with
// forks, and the refused requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::RandomTokens;
using test::SameBits;
using ::testing::HasSubstr;

ModelShape TinyT5(bool gated) {
  return {.name = gated ? "tiny-t5-gated" : "tiny-t5",
          .architecture = Architecture::kT5,
          .layers = 2,
          .embedding = 64,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 96,
          .vocab = 96,
          .gated = gated,
          .type = kernels::DataType::kF32};
}

class EncoderDecoderTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    engine_ = test::MakeEngine(TinyT5(GetParam()), {.cells = 512,
                                                    .threads = 2,
                                                    .k_type = kernels::DataType::kF32,
                                                    .v_type = kernels::DataType::kF32,
                                                    .deterministic = true});
    ASSERT_NE(engine_, nullptr);
  }
  SequenceHandle Create() { return *engine_->memory().sequences().Create({}); }
  SequenceHandle Encoded(const std::vector<TokenId>& text) {
    const SequenceHandle sequence = Create();
    const Status status = engine_->Encode(sequence, text);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    return sequence;
  }
  void ExpectRefusal(const Status& status, Code code, const std::string& text) {
    ASSERT_FALSE(status.has_value()) << "accepted, wanted: " << text;
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr(text));
  }
  Status Decode(SequenceHandle sequence, TokenId token) {
    std::vector<float> logits(96);
    StepItem item{.sequence = sequence,
                  .pos = engine_->memory().sequences().Query(sequence)->next_pos,
                  .tokens = {&token, 1},
                  .logits = logits.data()};
    engine_->Step({&item, 1});
    return item.status;
  }

  std::unique_ptr<Engine> engine_;
  const std::vector<TokenId> text_ = RandomTokens(3, 70, 96);
  const std::vector<TokenId> answer_ = RandomTokens(4, 40, 96);
};

TEST_P(EncoderDecoderTest, LogitsDependOnTheWholeText) {
  std::vector<TokenId> other = text_;
  other.front() = (other.front() + 1) % 96;
  const std::vector<float> a = Feed(*engine_, Encoded(text_), answer_, 40);
  EXPECT_FALSE(SameBits(a, Feed(*engine_, Encoded(other), answer_, 40)));
  EXPECT_TRUE(SameBits(a, Feed(*engine_, Encoded(text_), answer_, 7)));
}

TEST_P(EncoderDecoderTest, ForksShareTheEncodedTextAndDiverge) {
  const SequenceHandle base = Encoded(text_);
  const PoolUsage before = engine_->memory().Usage();
  SequenceHandle forks[2];
  ASSERT_TRUE(engine_->memory().sequences().Fork(base, {}, forks).has_value());
  EXPECT_EQ(engine_->memory().Usage().groups[1].live_cells, before.groups[1].live_cells);
  const std::vector<float> first = Feed(*engine_, forks[0], answer_, 40);
  Feed(*engine_, base, RandomTokens(9, 5, 96), 5);
  EXPECT_TRUE(SameBits(first, Feed(*engine_, forks[1], answer_, 3)));
  ASSERT_TRUE(engine_->memory().sequences().Drop(base).has_value());
  EXPECT_TRUE(SameBits(first, Feed(*engine_, Encoded(text_), answer_, 40)));
}

TEST_P(EncoderDecoderTest, AShiftOfAllCellsKeepsTheLogits) {
  const SequenceHandle sequence = Encoded(text_);
  const SequenceHandle still = Encoded(text_);
  Feed(*engine_, sequence, answer_, 40);
  Feed(*engine_, still, answer_, 40);
  ASSERT_TRUE(
      engine_->memory().sequences().AddPositions(sequence, {Pos{0}, kPosEnd}, 100).has_value());
  EXPECT_TRUE(SameBits(Feed(*engine_, still, {5, 6}, 2), Feed(*engine_, sequence, {5, 6}, 2)));
}

TEST_P(EncoderDecoderTest, DecodingBeforeAndEncodingAfterTheTextAreRefused) {
  const SequenceHandle sequence = Create();
  ExpectRefusal(Decode(sequence, 5), Code::kInvalidArgument, "text");
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cell_count, 0u);
  ASSERT_TRUE(engine_->Encode(sequence, text_).has_value());
  ExpectRefusal(engine_->Encode(sequence, text_), Code::kExists, "70");
  ASSERT_TRUE(Decode(sequence, 5).has_value());
  ExpectRefusal(engine_->Encode(sequence, text_), Code::kExists, "70");
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cross_cells, 70u);
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cell_count, 1u);
}

TEST_P(EncoderDecoderTest, EmptyAndTooLongTextsAreRefused) {
  const SequenceHandle sequence = Create();
  ExpectRefusal(engine_->Encode(sequence, {}), Code::kInvalidArgument, "none given");
  const std::vector<TokenId> unknown = {5, 96};
  ExpectRefusal(engine_->Encode(sequence, unknown), Code::kInvalidArgument, "token 1: id 96");
  ExpectRefusal(engine_->Encode(sequence, RandomTokens(1, 600, 96)), Code::kNoSpace, "");
  ExpectRefusal(engine_->Encode(SequenceHandle{12345}, text_), Code::kNotFound, "");
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cross_cells, 0u);
  EXPECT_EQ(engine_->memory().Usage().groups[1].live_cells, 0u);
}

TEST_P(EncoderDecoderTest, ATextInSlicesGivesTheSameBitsWithStepsBetweenThem) {
  const std::vector<float> expected = Feed(*engine_, Encoded(text_), answer_, 40);
  const SequenceHandle other = Encoded(text_);
  for (const std::size_t slice : {1u, 7u, 30u}) {
    const SequenceHandle sequence = Create();
    auto work = engine_->StartEncode(sequence, text_);
    ASSERT_TRUE(work.has_value()) << work.error().message;
    std::size_t slices = 0;
    for (; (*work)->tokens_left() > 0; ++slices) {
      EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cross_cells, 0u)
          << "no cell is visible before the last slice";
      const Result<bool> done = (*work)->Advance(slice);
      ASSERT_TRUE(done.has_value()) << done.error().message;
      if (slices % 3 == 0) Feed(*engine_, other, {5}, 1);
    }
    EXPECT_GE(slices, 70 / slice / 4);
    EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cross_cells, 70u);
    EXPECT_TRUE(SameBits(expected, Feed(*engine_, sequence, answer_, 40))) << slice;
  }
}

TEST_P(EncoderDecoderTest, AnAbandonedTextFreesItsCells) {
  const PoolUsage before = engine_->memory().Usage();
  const SequenceHandle sequence = Create();
  auto work = *engine_->StartEncode(sequence, text_);
  ASSERT_TRUE(work->Advance(20).has_value());
  EXPECT_LT(engine_->memory().Usage().groups[1].free_blocks, before.groups[1].free_blocks);
  work.reset();
  EXPECT_EQ(engine_->memory().Usage().groups[1].free_blocks, before.groups[1].free_blocks);
  EXPECT_EQ(engine_->memory().sequences().Query(sequence)->cross_cells, 0u);
  // The sequence is dropped while its text is encoded.
  work = *engine_->StartEncode(sequence, text_);
  ASSERT_TRUE(work->Advance(20).has_value());
  ASSERT_TRUE(engine_->memory().sequences().Drop(sequence).has_value());
  Result<bool> done = false;
  while (done && !*done) done = work->Advance(20);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::kConflict);
  EXPECT_EQ(engine_->memory().Usage().groups[1].free_blocks, before.groups[1].free_blocks);
}

TEST_P(EncoderDecoderTest, ATextLongerThanTheLimitIsRefusedByName) {
  ExpectRefusal(engine_->Encode(Create(), std::vector<TokenId>(kEncodeTokensMax + 1, 5)),
                Code::kInvalidArgument, "tokens: 16385, an encoded text has at most 16384");
}

INSTANTIATE_TEST_SUITE_P(FeedForwards, EncoderDecoderTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Gated" : "Relu"; });

TEST(EncoderDecoderModelTest, AModelWithoutAnEncoderRefusesTexts) {
  const auto engine = test::MakeEngine(test::TinyLlama(), {.cells = 64, .threads = 1});
  const std::vector<TokenId> text = {1, 2};
  const Status status = engine->Encode(*engine->memory().sequences().Create({}), text);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("does not have both an encoder and a decoder"));
}

}  // namespace
}  // namespace kvd
