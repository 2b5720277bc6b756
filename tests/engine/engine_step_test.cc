// Tests that a step item that fails changes nothing, and that the other items of its step are
// computed.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "engine/engine.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/forward/compute/thread_pool.h"
#include "engine/model/model_config.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::TinyLlama;

class EngineStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = MakeEngine(TinyLlama(), {.cells = 128, .threads = 1, .ubatch_tokens = 64});
    ASSERT_NE(engine_, nullptr);
  }
  Memory& memory() { return engine_->memory(); }
  Status StepOne(SequenceHandle sequence, std::int32_t pos, std::vector<TokenId> tokens) {
    StepItem item{
        .sequence = sequence, .pos = Pos{pos}, .tokens = tokens, .first_logits_row = tokens.size()};
    engine_->Step({&item, 1});
    return item.status;
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineStepTest, RefusesTokensOutsideTheVocabularyByNumber) {
  const SequenceHandle sequence = *memory().sequences().Create({});
  for (const TokenId bad :
       {-1, 96, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    const Status status = StepOne(sequence, 0, {1, bad});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find(std::to_string(bad)), std::string::npos)
        << status.error().message;
  }
  EXPECT_EQ(memory().sequences().Query(sequence)->cell_count, 0u);
}

TEST_F(EngineStepTest, RefusesEmptyTokensAndAWrongPosition) {
  const SequenceHandle sequence = *memory().sequences().Create({});
  EXPECT_EQ(StepOne(sequence, 0, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StepOne(sequence, 1, {1}).error().code, Code::kInvalidArgument);
  ASSERT_TRUE(StepOne(sequence, 0, {1, 2}).has_value());
  EXPECT_EQ(StepOne(sequence, 1, {1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StepOne(sequence, 3, {1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(memory().sequences().Query(sequence)->cell_count, 2u);
}

TEST(EnginePositionTest, RefusesPositionsWithoutAnEmbedding) {
  ModelShape shape = TinyLlama();
  shape.architecture = Architecture::kGpt2;
  shape.context = 64;
  const auto engine = MakeEngine(shape, {.cells = 128, .threads = 1, .ubatch_tokens = 100});
  ASSERT_NE(engine, nullptr);
  const SequenceHandle sequence = *engine->memory().sequences().Create({});
  const auto step = [&](std::int32_t pos, std::size_t count) {
    const std::vector<TokenId> tokens(count, 5);
    StepItem item{
        .sequence = sequence, .pos = Pos{pos}, .tokens = tokens, .first_logits_row = count};
    engine->Step({&item, 1});
    return item.status;
  };
  const Status all = step(0, 65);
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().code, Code::kInvalidArgument);
  EXPECT_EQ(all.error().message,
            "tokens: 65 from position 0: the model has embeddings of 64 positions");
  ASSERT_TRUE(step(0, 60).has_value());
  EXPECT_FALSE(step(60, 5).has_value());
  EXPECT_TRUE(step(60, 4).has_value());
  EXPECT_FALSE(step(64, 1).has_value());
  EXPECT_EQ(step(-1, 1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(engine->memory().sequences().Query(sequence)->cell_count, 64u);
}

TEST_F(EngineStepTest, ASequenceTwiceInABatchFailsOnceAndIsComputedOnce) {
  const SequenceHandle sequence = *memory().sequences().Create({});
  const TokenId token = 5;
  StepItem items[2];
  for (StepItem& item : items)
    item = {.sequence = sequence, .pos = Pos{0}, .tokens = {&token, 1}, .first_logits_row = 1};
  engine_->Step(items);
  EXPECT_NE(items[0].status.has_value(), items[1].status.has_value());
  EXPECT_EQ(memory().sequences().Query(sequence)->cell_count, 1u);
}

TEST_F(EngineStepTest, AFullPoolFailsOnlyItsRequestAndTheErrorHasTheNumbers) {
  const SequenceHandle big = *memory().sequences().Create({});
  Feed(*engine_, big, RandomTokens(1, 64, 96), 64);
  Feed(*engine_, big, RandomTokens(2, 31, 96),
       31);  // 95 of 128 cells are used; the last of the four blocks is free
  const SequenceHandle small = *memory().sequences().Create({});
  const SequenceHandle late = *memory().sequences().Create({});
  const TokenId token = 5;
  const std::vector<TokenId> many(40, 6);
  StepItem items[3] = {
      {.sequence = small, .pos = Pos{0}, .tokens = {&token, 1}, .first_logits_row = 1},
      {.sequence = late, .pos = Pos{0}, .tokens = many, .first_logits_row = 40},
      {.sequence = big, .pos = Pos{95}, .tokens = {&token, 1}, .first_logits_row = 1}};
  engine_->Step(items);
  EXPECT_TRUE(items[0].status.has_value());
  EXPECT_TRUE(items[2].status.has_value());
  ASSERT_FALSE(items[1].status.has_value());
  EXPECT_EQ(items[1].status.error().code, Code::kNoSpace);
  EXPECT_NE(items[1].status.error().message.find("free"), std::string::npos)
      << items[1].status.error().message;
  EXPECT_EQ(memory().sequences().Query(late)->cell_count, 0u);
  ASSERT_TRUE(memory().sequences().Drop(small).has_value());
  EXPECT_TRUE(StepOne(late, 0, {1}).has_value());
}

TEST_F(EngineStepTest, LogitsAreWrittenToTheBufferOfTheItem) {
  const SequenceHandle sequence = *memory().sequences().Create({});
  const auto tokens = RandomTokens(3, 4, 96);
  std::vector<float> room(96 * 4, -7.0f);
  StepItem item{.sequence = sequence,
                .pos = Pos{0},
                .tokens = tokens,
                .first_logits_row = 2,
                .logits = room.data() + 96};
  engine_->Step({&item, 1});
  ASSERT_TRUE(item.status.has_value());
  for (std::size_t i = 0; i < 96; ++i) {
    EXPECT_EQ(room[i], -7.0f);
    EXPECT_NE(room[96 + i], -7.0f);
    EXPECT_NE(room[2 * 96 + i], -7.0f);
    EXPECT_EQ(room[3 * 96 + i], -7.0f);
  }
}

TEST_F(EngineStepTest, CountsWhatItCommitted) {
  const SequenceHandle sequence = *memory().sequences().Create({});
  ASSERT_TRUE(StepOne(sequence, 0, {1, 2, 3}).has_value());
  ASSERT_FALSE(StepOne(sequence, 9, {1}).has_value());
  EXPECT_EQ(engine_->counters().tokens_computed, 3u);
  EXPECT_EQ(engine_->counters().steps, 1u);
}

TEST_F(EngineStepTest, ProfilesTheTimeOfDecodeStepsAndOfPrompts) {
  const SequenceHandle sequence = *memory().sequences().Create({});
  ASSERT_TRUE(StepOne(sequence, 0, {1, 2, 3, 4, 5}).has_value());
  ASSERT_TRUE(StepOne(sequence, 5, {6}).has_value());
  ASSERT_TRUE(StepOne(sequence, 6, {7}).has_value());
  ASSERT_FALSE(StepOne(sequence, 9, {8}).has_value());  // refused, so not counted as a step
  const StepTimes prompts = engine_->profile().prompts();
  const StepTimes decode = engine_->profile().decode();
  EXPECT_EQ(prompts.steps, 1u);
  EXPECT_EQ(prompts.tokens, 5u);
  EXPECT_EQ(decode.steps, 2u);
  EXPECT_EQ(decode.tokens, 2u);
  for (const StepPhase part :
       {StepPhase::kMemory, StepPhase::kEmbedding, StepPhase::kNorms, StepPhase::kProjections,
        StepPhase::kCells, StepPhase::kAttention, StepPhase::kFeedForward}) {
    EXPECT_GT(prompts.ns[static_cast<std::size_t>(part)], 0u) << StepPhaseName(part);
    EXPECT_GT(decode.ns[static_cast<std::size_t>(part)], 0u) << StepPhaseName(part);
  }
  EXPECT_EQ(decode.ns[static_cast<std::size_t>(StepPhase::kRecurrent)], 0u);
}

TEST(EngineOptionsTest, RefusesATableThatDoesNotExistByName) {
  const auto engine =
      Engine::Create({.model_path = test::TinyModelPath(TinyLlama()), .kernel_table = "sse9"});
  ASSERT_FALSE(engine.has_value());
  EXPECT_NE(engine.error().message.find("sse9"), std::string::npos);
}

TEST(EngineOptionsTest, RefusesMorePinnedThreadsThanProcessors) {
  const auto usable = static_cast<std::uint32_t>(UsableProcessors().size());
  EngineOptions options = {.model_path = test::TinyModelPath(TinyLlama()),
                           .cells = 256,
                           .threads = usable + 1,
                           .pin_threads = true};
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, Code::kInvalidArgument);
  EXPECT_NE(engine.error().message.find("may use " + std::to_string(usable) + " processors"),
            std::string::npos);
  options.threads = usable;
  EXPECT_TRUE(Engine::Create(options).has_value());
}

TEST(EngineOptionsTest, RefusesCellTypesAndSizesByName) {
  const std::string path = test::TinyModelPath(TinyLlama());
  EXPECT_EQ(Engine::Create({.model_path = path, .k_type = kernels::DataType::kQ4_1}).error().code,
            Code::kUnsupported);
  EXPECT_EQ(Engine::Create({.model_path = path, .threads = 100000}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(Engine::Create({.model_path = path, .ubatch_tokens = 0}).error().code,
            Code::kInvalidArgument);
  EXPECT_FALSE(
      Engine::Create({.model_path = path, .cells = std::numeric_limits<std::uint64_t>::max()})
          .has_value());
  EXPECT_FALSE(Engine::Create({.model_path = path + ".missing"}).has_value());
}

TEST(EngineOptionsTest, WithoutAPathServesTheBundledModel) {
  const auto engine = Engine::Create({.cells = 256, .threads = 1});
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  EXPECT_EQ((*engine)->config().vocab_size, 1024u);
}

}  // namespace
}  // namespace kvd
