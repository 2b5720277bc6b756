// Tests the guarantee of --deterministic on every kernel table that this machine supports: the bits
// of a token's logits depend only on the tokens of its sequence, not on chunk sizes, other
// sequences in the step, forks, the number of threads or the kernel table.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "tests/kernels/trapped_tiles.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;
using test::TinyLlama;

// Returns the length of the test sequences: 300 tokens, or 90 if KVD_TEST_SCALE is below 1, as in
// sanitizer builds.
std::size_t TokenCount() { return test::IsScaledDown() ? 90 : 300; }

struct Named {
  std::string name;
  ModelShape shape;
};

// Returns the names of the kernel tables to test. The emulated amx table (SelectOrTrap) is used for
// one shape only, because it takes half a second per shape.
std::vector<std::string> TablesFor(const Named& tested) {
  std::vector<std::string> names;
  for (const kernels::KernelTable* table :
       {kernels::ScalarTable(), kernels::Avx2Table(), kernels::Avx512Table(),
        tested.name == "llama" ? kernels::SelectOrTrap("amx").table : kernels::AmxTable()}) {
    if (table != nullptr) names.emplace_back(table->name);
  }
  return names;
}

std::vector<Named> Shapes() {
  std::vector<Named> shapes;
  const auto add = [&](std::string name, Architecture architecture, RopeScaling scaling) {
    ModelShape shape = TinyLlama();
    shape.architecture = architecture;
    shape.rope_scaling = scaling;
    if (scaling != RopeScaling::kNone) {
      shape.rope_factor = 4.0f;
      shape.rope_original_context = 64;
      shape.context = 512;
    }
    shapes.push_back({std::move(name), shape});
  };
  add("llama", Architecture::kLlama, RopeScaling::kNone);
  // Four query heads per key head: attention uses different tiles for one row than for many rows.
  add("llama_groups", Architecture::kLlama, RopeScaling::kNone);
  shapes.back().shape.name = "tiny-groups";
  shapes.back().shape.embedding = 256;
  shapes.back().shape.heads = 8;
  add("llama_linear", Architecture::kLlama, RopeScaling::kLinear);
  add("llama_yarn", Architecture::kLlama, RopeScaling::kYarn);
  add("llama_llama3", Architecture::kLlama, RopeScaling::kLlama3);
  add("qwen2", Architecture::kQwen2, RopeScaling::kNone);
  add("qwen3", Architecture::kQwen3, RopeScaling::kNone);
  // Windows of sizes that are not multiples of 32, so that most windows begin within a run of
  // cells.
  add("gemma2", Architecture::kGemma2, RopeScaling::kNone);
  shapes.back().shape.window = 45;
  add("gemma3", Architecture::kGemma3, RopeScaling::kLinear);
  shapes.back().shape.window = 20;
  shapes.back().shape.window_period = 2;
  add("lfm2", Architecture::kLfm2, RopeScaling::kNone);
  add("mamba", Architecture::kMamba, RopeScaling::kNone);
  add("mamba2", Architecture::kMamba2, RopeScaling::kNone);
  add("jamba", Architecture::kJamba, RopeScaling::kNone);
  add("granitehybrid", Architecture::kGraniteHybrid, RopeScaling::kNone);
  add("falcon_h1", Architecture::kFalconH1, RopeScaling::kNone);
  // The rotation factors change at position 64.
  add("phi3", Architecture::kPhi3, RopeScaling::kLongRope);
  add("rwkv6", Architecture::kRwkv6, RopeScaling::kNone);
  add("rwkv7", Architecture::kRwkv7, RopeScaling::kNone);
  add("qwen35", Architecture::kQwen35, RopeScaling::kNone);
  add("t5", Architecture::kT5, RopeScaling::kNone);
  // Rows of a step go through the experts together, in groups that depend on all rows.
  add("qwen3moe", Architecture::kQwen3Moe, RopeScaling::kNone);
  shapes.back().shape.experts = 7;
  shapes.back().shape.experts_used = 3;
  add("qwen2moe", Architecture::kQwen2Moe, RopeScaling::kNone);
  add("gpt_oss", Architecture::kGptOss, RopeScaling::kYarn);
  add("nemotron_h_moe", Architecture::kNemotronHMoe, RopeScaling::kNone);
  shapes.back().shape.layers = 4;
  add("qwen3next", Architecture::kQwen3Next, RopeScaling::kNone);
  // Delta attention with a decay per channel, and latent rows in the other layers.
  add("kimi_linear", Architecture::kKimiLinear, RopeScaling::kNone);
  shapes.back().shape.head_dim = 64;
  shapes.back().shape.leading_dense = 1;
  add("mistral3", Architecture::kMistral3, RopeScaling::kYarn);
  add("smollm3", Architecture::kSmolLm3, RopeScaling::kNone);
  shapes.back().shape.layers = 4;
  add("olmo2", Architecture::kOlmo2, RopeScaling::kNone);
  add("olmo3", Architecture::kOlmo2, RopeScaling::kYarn);
  shapes.back().shape.name = "tiny-windows";
  shapes.back().shape.layers = 4;
  shapes.back().shape.window = 45;
  // A shape with layer norms, with attention and feed-forward in parallel, and with sliding
  // windows.
  add("cohere2", Architecture::kCohere2, RopeScaling::kNone);
  shapes.back().shape.layers = 4;
  // A shape with biased layer norms, and with norms of q and k that have weights for each head.
  add("stablelm", Architecture::kStableLm, RopeScaling::kNone);
  shapes.back().shape.qk_norm = true;
  // Feed-forwards without a gate, biases everywhere.
  add("phi2", Architecture::kPhi2, RopeScaling::kNone);
  shapes.back().shape.bias = BiasSet::kAll;
  // Embeddings of positions instead of a rotation.
  add("gpt2", Architecture::kGpt2, RopeScaling::kNone);
  shapes.back().shape.context = 512;
  // Norms of q and k after their rotation.
  add("hunyuan_moe", Architecture::kHunyuanMoe, RopeScaling::kNone);
  // Norms with a bias. The rotation factors change at position 64.
  add("phimoe", Architecture::kPhiMoe, RopeScaling::kLongRope);
  // Cells of latent rows, and of each head's own keys and values.
  for (const bool caches_latent : {true, false}) {
    add(caches_latent ? "deepseek2" : "deepseek2_heads", Architecture::kDeepseek2,
        RopeScaling::kYarn);
    shapes.back().shape.head_dim = 64;
    shapes.back().shape.query_rank = caches_latent ? 32 : 0;
    shapes.back().shape.caches_latent = caches_latent;
  }
  // Layers that read the cells of others, and experts beside the feed-forward.
  add("gemma4", Architecture::kGemma4, RopeScaling::kNone);
  shapes.back().shape.layers = 6;
  shapes.back().shape.window = 20;
  shapes.back().shape.window_period = 3;
  add("gemma4_experts", Architecture::kGemma4, RopeScaling::kNone);
  shapes.back().shape.name = "tiny-experts";
  shapes.back().shape.window = 20;
  shapes.back().shape.experts = 5;
  add("gemma3n", Architecture::kGemma3n, RopeScaling::kNone);
  shapes.back().shape.layers = 12;
  shapes.back().shape.window = 20;
  return shapes;
}

// Returns a sequence without cells. If the model has cross attention, the sequence has an encoded
// text.
SequenceHandle Fresh(Engine& engine) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  if (engine.config().has_cross_attention()) {
    EXPECT_TRUE(engine.Encode(sequence, RandomTokens(6, 50, engine.config().vocab_size)));
  }
  return sequence;
}

// Returns whether the head dimension is a multiple of 32, as q8_0 cells require. The latent rows of
// the shapes have three halves of a head.
bool HasBlocksOfElements(const ModelShape& shape) {
  return (shape.head_dim != 0 ? shape.head_dim : shape.embedding / shape.heads) % 32 == 0;
}

// Feeds the tokens in chunks of several sizes, all below chunk_end, and expects the logits to have
// the bits of `truth`. If `truth` is empty, it is set to the logits of the first chunk size.
// Sanitizer builds take every second size.
void ExpectChunksToAgree(Engine& engine, const std::vector<TokenId>& tokens,
                         const std::string& table, std::vector<float>* truth,
                         std::size_t chunk_end = SIZE_MAX) {
  const std::size_t chunks[] = {1, 63, 7, 64, tokens.size()};
  for (std::size_t i = 0; i < std::size(chunks); i += test::Stride(2)) {
    const std::size_t chunk = chunks[i];
    if (chunk >= chunk_end) continue;
    const SequenceHandle sequence = Fresh(engine);
    const std::vector<float> logits = Feed(engine, sequence, tokens, chunk);
    if (truth->empty()) *truth = logits;
    EXPECT_TRUE(SameBits(logits, *truth)) << table << ", chunks of " << chunk;
    ASSERT_TRUE(engine.memory().sequences().Drop(sequence).has_value());
  }
}

class SelfCheckTest : public ::testing::TestWithParam<Named> {};

TEST_P(SelfCheckTest, ChunksOfAnySizeOnAnyTableGiveTheScalarBitsTokenByToken) {
  const std::vector<TokenId> tokens = RandomTokens(7, TokenCount(), GetParam().shape.vocab);
  std::vector<float> truth;
  for (const std::string& table : TablesFor(GetParam())) {
    const auto engine =
        MakeEngine(GetParam().shape,
                   {.cells = 2048, .threads = 2, .deterministic = true, .kernel_table = table});
    ASSERT_NE(engine, nullptr);
    ExpectChunksToAgree(*engine, tokens, table, &truth);
  }
}

// Rows of other sequences choose experts of their own, and rows of prompts and of single tokens are
// computed together.
TEST_P(SelfCheckTest, OtherSequencesOfTheStepDoNotChangeARow) {
  const std::uint32_t vocab = GetParam().shape.vocab;
  const auto engine =
      MakeEngine(GetParam().shape, {.cells = 2048, .threads = 2, .deterministic = true});
  ASSERT_NE(engine, nullptr);
  const auto prefix = RandomTokens(20, 37, vocab), next = RandomTokens(21, 5, vocab);
  const SequenceHandle alone = Fresh(*engine), together = Fresh(*engine);
  Feed(*engine, alone, prefix, 64);
  Feed(*engine, together, prefix, 64);
  const std::vector<float> expected = Feed(*engine, alone, next, next.size());

  // Three sequences before and three after the tested one, with 1 to 21 new tokens each.
  std::vector<float> got(expected.size());
  std::vector<std::vector<TokenId>> others;
  std::vector<StepItem> items;
  for (std::size_t i = 0; i < 6; ++i) {
    others.push_back(RandomTokens(30 + i, i % 3 == 0 ? 1 : 10 * (i % 3) + 1, vocab));
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    const SequenceHandle other = Fresh(*engine);
    Feed(*engine, other, RandomTokens(40 + i, 3 + 6 * i, vocab), 64);
    items.push_back({.sequence = other,
                     .pos = engine->memory().sequences().Query(other)->next_pos,
                     .tokens = others[i],
                     .first_logits_row = others[i].size()});
  }
  items.insert(items.begin() + 3, {.sequence = together,
                                   .pos = Pos{37},
                                   .tokens = next,
                                   .first_logits_row = 0,
                                   .logits = got.data()});
  engine->Step(items);
  for (const StepItem& item : items) {
    ASSERT_TRUE(item.status.has_value()) << item.status.error().message;
  }
  EXPECT_TRUE(SameBits(got, expected));
}

// Without --deterministic, the bits of logits do not depend on chunk sizes either: products with
// quantised weights are sums of integers, except for products of many rows in the amx table, and
// attention in bf16 adds in the same order for any number of rows (docs/decisions/0014, 0015).
TEST_P(SelfCheckTest, WithoutTheDeterministicFlagChunksOfAnySizeAgreeBitForBit) {
  ASSERT_TRUE(kernels::IsQuantized(GetParam().shape.type));
  const std::vector<TokenId> tokens = RandomTokens(10, TokenCount(), GetParam().shape.vocab);
  for (const std::string& table : TablesFor(GetParam())) {
    for (const auto cells : {kernels::DataType::kF16, kernels::DataType::kQ8_0}) {
      if (cells == kernels::DataType::kQ8_0 && !HasBlocksOfElements(GetParam().shape)) continue;
      const auto engine = MakeEngine(
          GetParam().shape,
          {.cells = 2048, .threads = 2, .k_type = cells, .v_type = cells, .kernel_table = table});
      ASSERT_NE(engine, nullptr);
      const std::size_t wide_from_rows =
          kernels::SelectOrTrap(table.c_str()).table->bf16_quant_rows_min;
      std::vector<float> truth;
      ExpectChunksToAgree(*engine, tokens, table, &truth,
                          wide_from_rows == 0 ? SIZE_MAX : wide_from_rows);
    }
  }
}

// Products with f16 and bf16 weights are computed in bf16 if the kernel table supports it, so each
// table has its own expected bits.
TEST(HalvesSelfCheckTest, ChunksOfAnySizeAgreeOnEachTable) {
  for (const kernels::DataType type : {kernels::DataType::kF16, kernels::DataType::kBF16}) {
    for (const Architecture architecture : {Architecture::kLlama, Architecture::kMamba}) {
      Named tested{.name = "llama", .shape = TinyLlama()};
      tested.shape.type = type;
      tested.shape.architecture = architecture;
      const std::vector<TokenId> tokens = RandomTokens(12, TokenCount(), tested.shape.vocab);
      for (const std::string& table : TablesFor(tested)) {
        const auto engine =
            MakeEngine(tested.shape,
                       {.cells = 2048, .threads = 2, .deterministic = true, .kernel_table = table});
        ASSERT_NE(engine, nullptr);
        std::vector<float> truth;
        ExpectChunksToAgree(*engine, tokens, table, &truth);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryArchitecture, SelfCheckTest, ::testing::ValuesIn(Shapes()),
                         [](const auto& tested) { return tested.param.name; });

// The bf16 form of attention is used without --deterministic unless the weights or the cells are
// f32. With f16 weights the logits differ for any cells, because products of a few rows use the
// bf16 form only with --deterministic.
TEST(Bf16FormTest, AttentionUsesBf16UnlessTheFlagIsSetOrWeightsOrCellsAreF32) {
  const kernels::KernelTable* table = kernels::Avx512Table();
  if (table == nullptr || table->bf16_attention == nullptr)
    GTEST_SKIP() << "the machine lacks AVX512_BF16";
  using kernels::DataType;
  const auto logits = [&](DataType weights, DataType cells, bool deterministic) {
    ModelShape shape = TinyLlama();
    shape.type = weights;
    shape.name = "tiny-blocks";
    shape.embedding = 128;
    const auto engine = MakeEngine(shape, {.cells = 1024,
                                           .threads = 1,
                                           .k_type = cells,
                                           .v_type = cells,
                                           .deterministic = deterministic,
                                           .kernel_table = table->name});
    // Tokens are fed one by one. Products with quantised weights are the same with and without
    // --deterministic.
    return Feed(*engine, *engine->memory().sequences().Create({}),
                RandomTokens(11, 40, shape.vocab), 1);
  };
  for (const DataType weights : {DataType::kF32, DataType::kF16, DataType::kQ8_0}) {
    for (const DataType cells : {DataType::kF32, DataType::kF16, DataType::kQ8_0}) {
      const bool differs =
          weights == DataType::kF16 || (weights != DataType::kF32 && cells != DataType::kF32);
      EXPECT_EQ(SameBits(logits(weights, cells, false), logits(weights, cells, true)), !differs)
          << kernels::DataTypeName(weights) << " over " << kernels::DataTypeName(cells);
    }
  }
}

class DeterminismTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = MakeEngine(TinyLlama(), {.cells = 4096, .threads = 2, .deterministic = true});
    ASSERT_NE(engine_, nullptr);
  }
  SequenceHandle Create() { return *engine_->memory().sequences().Create({}); }
  SequenceHandle Fork(SequenceHandle source) {
    SequenceHandle fork = SequenceHandle::kNone;
    EXPECT_TRUE(engine_->memory().sequences().Fork(source, {}, {&fork, 1}).has_value());
    return fork;
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(DeterminismTest, AForkContinuesWithTheBitsOfASequenceComputedFromScratch) {
  const auto prefix = RandomTokens(1, 77, 96);
  const auto rest = RandomTokens(2, 50, 96);
  const SequenceHandle base = Create();
  Feed(*engine_, base, prefix, 64);
  const SequenceHandle first = Fork(base);
  const SequenceHandle second = Fork(base);
  Feed(*engine_, first, RandomTokens(3, 20, 96),
       20);  // takes the free tail of the block that both forks share
  const auto forked = Feed(*engine_, second, rest, 9);
  const SequenceHandle fresh = Create();
  Feed(*engine_, fresh, prefix, 5);
  EXPECT_TRUE(SameBits(forked, Feed(*engine_, fresh, rest, 50)));
}

TEST_F(DeterminismTest, OtherRowsOfTheBatchDoNotChangeARow) {
  const auto prefix = RandomTokens(4, 45, 96);
  std::vector<SequenceHandle> sequences;
  for (int i = 0; i < 5; ++i) sequences.push_back(Create());
  for (std::size_t i = 0; i < sequences.size(); ++i)
    Feed(*engine_, sequences[i], RandomTokens(100 + i, 20 + i * 13, 96), 64);
  const SequenceHandle alone = Create();
  const SequenceHandle together = Create();
  Feed(*engine_, alone, prefix, 64);
  Feed(*engine_, together, prefix, 64);
  const TokenId token = 17;
  std::vector<float> expected = Feed(*engine_, alone, {token}, 1);
  std::vector<float> got(96);
  std::vector<float> others(96 * sequences.size());
  std::vector<StepItem> items;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    items.push_back({.sequence = sequences[i],
                     .pos = engine_->memory().sequences().Query(sequences[i])->next_pos,
                     .tokens = {&token, 1},
                     .first_logits_row = 0,
                     .logits = others.data() + i * 96});
  }
  items.insert(items.begin() + 2, {.sequence = together,
                                   .pos = Pos{45},
                                   .tokens = {&token, 1},
                                   .first_logits_row = 0,
                                   .logits = got.data()});
  engine_->Step(items);
  for (const StepItem& item : items)
    ASSERT_TRUE(item.status.has_value()) << item.status.error().message;
  EXPECT_TRUE(SameBits(got, expected));
}

TEST_F(DeterminismTest, ThreadsDoNotChangeARow) {
  const auto one = MakeEngine(TinyLlama(), {.cells = 1024, .threads = 1, .deterministic = true});
  const auto three = MakeEngine(TinyLlama(), {.cells = 1024, .threads = 3, .deterministic = true});
  const auto tokens = RandomTokens(5, 200, 96);
  EXPECT_TRUE(SameBits(Feed(*one, *one->memory().sequences().Create({}), tokens, 64),
                       Feed(*three, *three->memory().sequences().Create({}), tokens, 200)));
}

TEST_F(DeterminismTest, AShiftDoesNotChangeASiblingAndMatchesAShiftedCopy) {
  const auto prefix = RandomTokens(6, 90, 96);
  const auto next = RandomTokens(7, 10, 96);
  const SequenceHandle base = Create();
  Feed(*engine_, base, prefix, 64);
  const SequenceHandle untouched = Fork(base);
  const SequenceHandle shifted = Fork(base);
  ASSERT_TRUE(engine_->memory()
                  .sequences()
                  .RemoveRange(shifted, {.begin = Pos{10}, .end = Pos{40}})
                  .has_value());
  ASSERT_TRUE(engine_->memory()
                  .sequences()
                  .AddPositions(shifted, {.begin = Pos{40}, .end = kPosEnd}, -30)
                  .has_value());
  const auto after_shift = Feed(*engine_, shifted, next, 10);
  const SequenceHandle twin = Fork(base);
  const auto before = Feed(*engine_, untouched, next, 10);
  EXPECT_TRUE(SameBits(before, Feed(*engine_, twin, next, 3)));
  EXPECT_FALSE(SameBits(before, after_shift));
}

TEST_F(DeterminismTest, AShiftOfAllCellsChangesLogitsOnlyByRounding) {
  // Attention scores depend only on the differences of positions.
  const auto prefix = RandomTokens(8, 70, 96);
  const auto next = RandomTokens(9, 8, 96);
  const SequenceHandle base = Create();
  Feed(*engine_, base, prefix, 64);
  const SequenceHandle moved = Fork(base);
  ASSERT_TRUE(engine_->memory()
                  .sequences()
                  .AddPositions(moved, {.begin = Pos{0}, .end = kPosEnd}, 500)
                  .has_value());
  EXPECT_EQ(engine_->memory().sequences().Query(moved)->next_pos, Pos{570});
  const auto plain = Feed(*engine_, base, next, 8);
  const auto shifted = Feed(*engine_, moved, next, 8);
  EXPECT_TRUE(SameBits(plain, shifted))
      << "a query at position p + 500 is rotated for position p against cells with delta 500";
}

}  // namespace
}  // namespace kvd
