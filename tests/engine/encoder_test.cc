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

TEST(EncoderTest, ATextGivesTheSameBitsOnEveryTableWithAnyThreadsAndAfterAnyText) {
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

TEST(EncoderTest, EveryTokenAttendsToLaterTokens) {
  const auto engine = MakeBert(Pooling::kCls);
  std::vector<TokenId> tokens = SomeTokens(50);
  const std::vector<float> before = Embed(*engine, tokens);
  tokens.back() = (tokens.back() + 1) % 96;
  EXPECT_NE(Embed(*engine, tokens), before);
}

TEST(EncoderTest, TokensThatItCannotReadAreRefusedByName) {
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

void ExpectUnsupported(Engine& engine, std::optional<Pooling> pooling, const char* named) {
  const std::vector<TokenId> tokens = {1};
  const Result<Embedding> embedding = engine.Embed(tokens, pooling);
  ASSERT_FALSE(embedding.has_value());
  EXPECT_EQ(embedding.error().code, Code::kUnsupported);
  EXPECT_THAT(embedding.error().message, HasSubstr(named));
}

TEST(EncoderTest, VerbsThatAModelLacksAreRefusedByName) {
  ExpectUnsupported(*MakeBert(Pooling::kMean), Pooling::kRank, "bert has no classifier");
  const auto llama = test::MakeEngine(test::TinyLlama(), {.cells = 64, .threads = 1});
  ExpectUnsupported(*llama, std::nullopt, "no llama.pooling_type; the request must name a pooling");
  ExpectUnsupported(*llama, Pooling::kRank, "llama has no classifier");
  ModelShape mamba = test::TinyLlama();
  mamba.architecture = Architecture::kMamba;
  const auto recurrent = test::MakeEngine(mamba, {.cells = 64, .threads = 1});
  ExpectUnsupported(*recurrent, Pooling::kMean, "mamba with these layers does not embed texts");
}

TEST(EncoderTest, ARequestMayOverrideThePoolingOfTheFile) {
  const std::vector<TokenId> tokens = SomeTokens(20);
  const auto ranker = MakeBert(Pooling::kRank);
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kLast}) {
    const Result<Embedding> embedding = ranker->Embed(tokens, pooling);
    ASSERT_TRUE(embedding.has_value()) << embedding.error().message;
    EXPECT_EQ(embedding->width, 64u);
  }
  const Result<Embedding> scores = ranker->Embed(tokens);
  ASSERT_TRUE(scores.has_value()) << scores.error().message;
  EXPECT_EQ(scores->values.size(), 1u);
}

// A decoder reads texts without cells; its last row before the output matrix is that of a step.
TEST(EncoderTest, ADecoderReadsATextCausallyAndTakesNoCells) {
  ModelShape shape = TinyBert(Pooling::kNone);
  shape.architecture = Architecture::kQwen3;
  shape.kv_heads = 2;
  shape.name = "tiny-qwen3-embedding";
  const auto engine = test::MakeEngine(shape, {.cells = 64, .threads = 1});
  const std::uint32_t free_blocks = engine->memory().Usage().free_blocks;
  const std::vector<TokenId> tokens = SomeTokens(70);
  const Result<Embedding> all = engine->Embed(tokens);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_EQ(all->row_count, 70u);
  const Result<Embedding> first = engine->Embed(std::span(tokens).first(33));
  ASSERT_TRUE(first.has_value());
  for (std::size_t i = 0; i < first->values.size(); ++i) {
    EXPECT_NEAR(first->values[i], all->values[i], 1e-5) << i;
  }
  EXPECT_EQ(engine->memory().Usage().free_blocks, free_blocks);
}

TEST(EncoderTest, ScoresOfADecoderAreProbabilities) {
  ModelShape shape = TinyBert(Pooling::kRank);
  shape.architecture = Architecture::kQwen3;
  shape.labels = 3;
  shape.name = "tiny-qwen3-reranker";
  const auto engine = test::MakeEngine(shape, {.cells = 64, .threads = 1});
  const std::vector<float> scores = Embed(*engine, SomeTokens(9));
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_NEAR(scores[0] + scores[1] + scores[2], 1.0, 1e-6);
}

class EncoderKindTest : public ::testing::TestWithParam<Architecture> {
 protected:
  static std::unique_ptr<Engine> Make(const std::string& kernels, std::uint32_t threads) {
    ModelShape shape = TinyBert(Pooling::kMean);
    shape.architecture = GetParam();
    shape.window = 8;
    shape.layers = 7;  // some without a window
    shape.name = "tiny-encoder";
    return test::MakeEngine(shape, {.cells = 64, .threads = threads, .kernel_table = kernels});
  }
};

TEST_P(EncoderKindTest, ATextGivesTheSameBitsOnEveryTableWithAnyThreadsAndSlices) {
  const std::vector<TokenId> tokens = SomeTokens(70);
  const std::vector<float> expected = Embed(*Make("scalar", 1), tokens);
  for (const char* table : {"avx2", "avx512", "amx"}) {
    if (kernels::SelectOrTrap(table).table == nullptr) continue;
    EXPECT_EQ(Embed(*Make(table, 1), tokens), expected) << table;
  }
  const auto engine = Make("", 3);
  for (const std::size_t slice : {1u, 10u, 1000u}) {
    auto work = *engine->StartEmbed(tokens, std::nullopt);
    while (work->tokens_left() > 0) ASSERT_TRUE(work->Advance(slice).has_value());
    EXPECT_EQ(work->TakeEmbedding().values, expected) << slice << " tokens per slice";
  }
}

TEST_P(EncoderKindTest, TheMeanDependsOnEveryToken) {
  const auto engine = Make("", 1);
  std::vector<TokenId> tokens = SomeTokens(50);
  const std::vector<float> before = Embed(*engine, tokens);
  for (const std::size_t at : {std::size_t{0}, std::size_t{25}, std::size_t{49}}) {
    std::vector<TokenId> changed = tokens;
    changed[at] = (changed[at] + 1) % 96;
    EXPECT_NE(Embed(*engine, changed), before) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EncoderKindTest,
                         ::testing::Values(Architecture::kNomicBert, Architecture::kJinaBertV2,
                                           Architecture::kModernBert,
                                           Architecture::kGemmaEmbedding),
                         [](const auto& kind) {
                           switch (kind.param) {
                             case Architecture::kNomicBert: return "NomicBert";
                             case Architecture::kJinaBertV2: return "JinaBertV2";
                             case Architecture::kModernBert: return "ModernBert";
                             default: return "GemmaEmbedding";
                           }
                         });

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
  auto work = engine.StartEmbed(tokens, std::nullopt);
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

TEST(EncoderTest, ATextInSlicesGivesTheSameBits) {
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

TEST(EncoderTest, TwoTextsInSlicesDoNotAffectEachOther) {
  const auto engine = MakeBert(Pooling::kMean);
  const std::vector<TokenId> first = SomeTokens(80);
  const std::vector<TokenId> second = test::RandomTokens(9, 33, 96);
  const std::vector<float> expected_first = Embed(*engine, first);
  const std::vector<float> expected_second = Embed(*engine, second);
  auto a = *engine->StartEmbed(first, std::nullopt);
  auto b = *engine->StartEmbed(second, std::nullopt);
  auto given_up = *engine->StartEmbed(first, std::nullopt);
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

TEST(EncoderTest, TheWorkOfASliceIsCloseToTheRequestAtAnyLengthOfText) {
  const auto engine = MakeBert(Pooling::kMean);
  for (const std::size_t tokens : {40u, 80u}) {
    auto work = *engine->StartEmbed(SomeTokens(tokens), std::nullopt);
    const std::size_t whole = work->tokens_left();
    EXPECT_GE(whole, tokens);
    ASSERT_TRUE(work->Advance(10).has_value());
    const std::size_t done = whole - work->tokens_left();
    EXPECT_GE(done, 4u);
    EXPECT_LE(done, 16u) << "of a text of " << tokens;
  }
}

TEST(EncoderTest, NormalizingGivesLengthOne) {
  std::vector<float> row = {3.0f, 4.0f};
  NormalizeRow(row);
  EXPECT_EQ(row, (std::vector<float>{0.6f, 0.8f}));
  row = {0.0f, 0.0f};
  NormalizeRow(row);
  EXPECT_EQ(row, (std::vector<float>{0.0f, 0.0f}));
}

}  // namespace
}  // namespace kvd
