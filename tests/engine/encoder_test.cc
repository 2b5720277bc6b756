// Tests models that compute embeddings: pooling, normalisation and slices of the computation, and
// the refused requests.
#include "engine/forward/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/engine.h"
#include "tests/kernels/trapped_tiles.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

ModelShape TinyBert(Pooling pooling) {
  return {.name = "tiny-bert-" + std::to_string(static_cast<int>(pooling)),
          .architecture = Architecture::kBert,
          .layers = 2,
          .embedding = 64,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 96,
          .vocab = 96,
          .context = 80,
          .pooling = pooling,
          .type = kernels::DataType::kF32};
}

std::unique_ptr<Engine> MakeBert(Pooling pooling, const std::string& kernels = "",
                                 std::uint32_t threads = 1) {
  return test::MakeEngine(TinyBert(pooling),
                          {.cells = 64, .threads = threads, .kernel_table = kernels});
}

std::vector<TokenId> SomeTokens(std::size_t count) { return test::RandomTokens(5, count, 96); }

std::vector<float> Embed(Engine& engine, std::span<const TokenId> tokens) {
  const Result<Embedding> embedding = engine.Embed(tokens);
  EXPECT_TRUE(embedding.has_value()) << embedding.error().message;
  return embedding ? embedding->values : std::vector<float>();
}

TEST(EncoderTest, PoolingTakesTheMeanTheFirstOrTheLastOfTheRows) {
  const std::vector<TokenId> tokens = SomeTokens(40);
  const Result<Embedding> rows = MakeBert(Pooling::kNone)->Embed(tokens);
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  ASSERT_EQ(rows->row_count, 40u);
  ASSERT_EQ(rows->width, 64u);
  const std::vector<float> mean = Embed(*MakeBert(Pooling::kMean), tokens);
  const std::vector<float> cls = Embed(*MakeBert(Pooling::kCls), tokens);
  const std::vector<float> last = Embed(*MakeBert(Pooling::kLast), tokens);
  ASSERT_EQ(mean.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(cls[i], rows->values[i]);
    EXPECT_EQ(last[i], rows->values[39 * 64 + i]);
    double sum = 0;
    for (std::size_t row = 0; row < 40; ++row) sum += double{rows->values[row * 64 + i]};
    EXPECT_EQ(mean[i], static_cast<float>(sum / 40));
  }
}

TEST(EncoderTest, ATextIsTheSameBitsInEveryTableWithAnyThreadsAndAfterAnyOther) {
  const std::vector<TokenId> tokens = SomeTokens(70);
  const std::vector<float> expected = Embed(*MakeBert(Pooling::kMean, "scalar"), tokens);
  for (const char* table : {"avx2", "avx512", "amx"}) {
    if (kernels::SelectOrTrap(table).table == nullptr) continue;
    EXPECT_EQ(Embed(*MakeBert(Pooling::kMean, table), tokens), expected) << table;
  }
  const auto engine = MakeBert(Pooling::kMean, "", 3);
  (void)Embed(*engine, SomeTokens(80));
  (void)Embed(*engine, SomeTokens(1));
  EXPECT_EQ(Embed(*engine, tokens), expected);
}

TEST(EncoderTest, EveryTokenSeesThoseBehindIt) {
  const auto engine = MakeBert(Pooling::kCls);
  std::vector<TokenId> tokens = SomeTokens(50);
  const std::vector<float> before = Embed(*engine, tokens);
  tokens.back() = (tokens.back() + 1) % 96;
  EXPECT_NE(Embed(*engine, tokens), before);
}

TEST(EncoderTest, WhatItCannotReadIsRefusedByName) {
  const auto engine = MakeBert(Pooling::kMean);
  const auto message = [&](const std::vector<TokenId>& tokens) {
    const Result<Embedding> embedding = engine->Embed(tokens);
    EXPECT_FALSE(embedding.has_value());
    EXPECT_EQ(embedding.error().code, Code::kInvalidArgument);
    return embedding.error().message;
  };
  EXPECT_THAT(message({}), HasSubstr("none given"));
  EXPECT_THAT(message(SomeTokens(81)), HasSubstr("81, the model reads at most 80"));
  EXPECT_THAT(message({1, 96}), HasSubstr("token 1: id 96"));
  EXPECT_THAT(message({-1}), HasSubstr("token 0: id -1"));
}

TEST(EncoderTest, RankingModelsAndDecodersEmbedNothing) {
  const std::vector<TokenId> tokens = {1};
  const Result<Embedding> ranked = MakeBert(Pooling::kRank)->Embed(tokens);
  ASSERT_FALSE(ranked.has_value());
  EXPECT_EQ(ranked.error().code, Code::kUnsupported);
  EXPECT_THAT(ranked.error().message, HasSubstr("rank"));
  const auto llama = test::MakeEngine(test::TinyLlama(), {.cells = 64, .threads = 1});
  const Result<Embedding> decoder = llama->Embed(tokens);
  ASSERT_FALSE(decoder.has_value());
  EXPECT_EQ(decoder.error().code, Code::kUnsupported);
  EXPECT_THAT(decoder.error().message, HasSubstr("llama"));
}

TEST(EncoderTest, AStepIsRefusedAndChangesNothing) {
  const auto engine = MakeBert(Pooling::kMean);
  const SequenceHandle sequence = *engine->memory().sequences().Create({});
  const TokenId token = 1;
  StepItem item{.sequence = sequence, .pos = Pos{0}, .tokens = {&token, 1}, .first_logits_row = 1};
  engine->Step({&item, 1});
  ASSERT_FALSE(item.status.has_value());
  EXPECT_EQ(item.status.error().code, Code::kUnsupported);
  EXPECT_THAT(item.status.error().message, HasSubstr("bert has no decoder"));
  EXPECT_EQ(engine->memory().sequences().Query(sequence)->cell_count, 0u);
}

std::vector<float> EmbedInSlices(Engine& engine, std::span<const TokenId> tokens,
                                 std::size_t slice_tokens) {
  auto work = engine.StartEmbed(tokens);
  EXPECT_TRUE(work.has_value());
  std::size_t slices = 0;
  while ((*work)->tokens_left() > 0) {
    const std::size_t left = (*work)->tokens_left();
    EXPECT_TRUE((*work)->Advance(slice_tokens).has_value());
    EXPECT_LE((*work)->tokens_left(), left);
    ++slices;
  }
  EXPECT_GE(slices * 8 * slice_tokens, tokens.size());
  return (*work)->TakeEmbedding().values;
}

TEST(EncoderTest, ATextInSlicesIsTheSameBits) {
  const std::vector<TokenId> tokens = SomeTokens(77);
  for (const kernels::DataType type : {kernels::DataType::kF32, kernels::DataType::kBF16}) {
    ModelShape shape = TinyBert(Pooling::kNone);
    shape.type = type;
    shape.name += type == kernels::DataType::kF32 ? "-f32" : "-bf16";
    const auto engine = test::MakeEngine(shape, {.cells = 64, .threads = 2});
    const std::vector<float> expected = Embed(*engine, tokens);
    for (const std::size_t slice : {1u, 3u, 10u, 40u, 1000u}) {
      EXPECT_EQ(EmbedInSlices(*engine, tokens, slice), expected) << slice << " tokens per slice";
    }
  }
}

TEST(EncoderTest, TwoTextsBySlicesDoNotMeet) {
  const auto engine = MakeBert(Pooling::kMean);
  const std::vector<TokenId> first = SomeTokens(80);
  const std::vector<TokenId> second = test::RandomTokens(9, 33, 96);
  const std::vector<float> expected_first = Embed(*engine, first);
  const std::vector<float> expected_second = Embed(*engine, second);
  auto a = *engine->StartEmbed(first);
  auto b = *engine->StartEmbed(second);
  auto given_up = *engine->StartEmbed(first);
  while (a->tokens_left() + b->tokens_left() > 0) {
    if (a->tokens_left() > 0) {
      ASSERT_TRUE(a->Advance(5).has_value());
    }
    if (b->tokens_left() > 0) {
      ASSERT_TRUE(b->Advance(2).has_value());
    }
    if (given_up != nullptr) {
      ASSERT_TRUE(given_up->Advance(9).has_value());
      if (given_up->tokens_left() < 40) given_up.reset();
    }
  }
  EXPECT_EQ(a->TakeEmbedding().values, expected_first);
  EXPECT_EQ(b->TakeEmbedding().values, expected_second);
}

TEST(EncoderTest, ASliceDoesAboutWhatItIsAskedForAtAnyLengthOfText) {
  const auto engine = MakeBert(Pooling::kMean);
  for (const std::size_t tokens : {40u, 80u}) {
    auto work = *engine->StartEmbed(SomeTokens(tokens));
    const std::size_t whole = work->tokens_left();
    EXPECT_GE(whole, tokens);
    ASSERT_TRUE(work->Advance(10).has_value());
    const std::size_t done = whole - work->tokens_left();
    EXPECT_GE(done, 4u);
    EXPECT_LE(done, 16u) << "of a text of " << tokens;
  }
}

TEST(EncoderTest, NormalizingMakesTheLengthOne) {
  std::vector<float> row = {3.0f, 4.0f};
  NormalizeRow(row);
  EXPECT_EQ(row, (std::vector<float>{0.6f, 0.8f}));
  row = {0.0f, 0.0f};
  NormalizeRow(row);
  EXPECT_EQ(row, (std::vector<float>{0.0f, 0.0f}));
}

}  // namespace
}  // namespace kvd
