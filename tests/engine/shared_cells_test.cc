// A model whose last layers read the cells of earlier ones: the cells are stored once, and every
// verb of the cache gives the bits of a sequence that is computed from scratch.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "engine/forward/pass/cache_planes.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;
using test::TinyLlama;

// Layers 0 and 1 have a window, layer 2 has none; layers 3 to 5 read the cells of layers 1, 1, 2.
ModelShape TinyGemma4() {
  ModelShape shape = TinyLlama();
  shape.name = "tiny-shared";
  shape.architecture = Architecture::kGemma4;
  shape.layers = 6;
  shape.window = 45;
  shape.window_period = 3;
  return shape;
}

std::unique_ptr<Engine> NewEngine(bool keeps_all = false) {
  return MakeEngine(TinyGemma4(), {.cells = 2048, .swa_full = keeps_all, .deterministic = true});
}

SequenceHandle Create(Engine& engine) { return *engine.memory().sequences().Create({}); }

TEST(SharedCellsTest, OnlyLayersThatOwnCellsTakeBytes) {
  const auto engine = NewEngine();
  ASSERT_NE(engine, nullptr);
  const ModelConfig& config = engine->config();
  const CellLayout& cells = engine->cell_layout();
  std::size_t bytes = 0;
  for (const std::size_t layer : {0, 1, 2}) {
    EXPECT_TRUE(config.caches(layer));
    bytes += std::size_t{config.kv_head_count[layer]} *
             (config.key_dim(layer) + config.value_dim(layer)) * sizeof(std::uint16_t);
  }
  EXPECT_EQ(cells.cell_bytes(), bytes);
  const std::size_t owners[] = {1, 1, 2};
  for (const std::size_t layer : {3, 4, 5}) {
    EXPECT_FALSE(config.caches(layer));
    EXPECT_EQ(config.cells_of(layer), owners[layer - 3]);
    EXPECT_EQ(cells.layers[layer].kv_head_count, 0u);
  }
  const std::vector<CachePlane> planes = CachePlanesOf(config, cells);
  ASSERT_EQ(planes.size(), 6u);
  EXPECT_EQ(planes[4].layer, 2u);
  EXPECT_EQ(planes[4].dim, 2 * planes[0].dim);
}

TEST(SharedCellsTest, ChunksOfAnySizeGiveTheBitsOfOneChunk) {
  for (const bool keeps_all : {false, true}) {
    const auto engine = NewEngine(keeps_all);
    ASSERT_NE(engine, nullptr);
    const std::vector<TokenId> tokens = RandomTokens(3, 512, TinyGemma4().vocab);
    const std::vector<float> expected = Feed(*engine, Create(*engine), tokens, tokens.size());
    for (const std::size_t chunk : {1, 31, 32, 33}) {
      const SequenceHandle sequence = Create(*engine);
      EXPECT_TRUE(SameBits(Feed(*engine, sequence, tokens, chunk), expected)) << chunk;
      ASSERT_TRUE(engine->memory().sequences().Drop(sequence));
    }
  }
}

TEST(SharedCellsTest, AForkContinuesWithTheBitsOfASequenceComputedFromScratch) {
  const auto engine = NewEngine();
  ASSERT_NE(engine, nullptr);
  const std::vector<TokenId> prefix = RandomTokens(3, 150, TinyGemma4().vocab);
  const std::vector<TokenId> next = RandomTokens(4, 50, TinyGemma4().vocab);
  const SequenceHandle base = Create(*engine);
  (void)Feed(*engine, base, prefix, 64);
  SequenceHandle fork{};
  ASSERT_TRUE(engine->memory().sequences().Fork(base, {}, {&fork, 1}));
  (void)Feed(*engine, base, RandomTokens(5, 20, TinyGemma4().vocab), 20);
  const SequenceHandle fresh = Create(*engine);
  (void)Feed(*engine, fresh, prefix, 33);
  EXPECT_TRUE(SameBits(Feed(*engine, fork, next, 9), Feed(*engine, fresh, next, 50)));
}

TEST(SharedCellsTest, ARewoundSequenceContinuesWithTheBitsOfANewOne) {
  const auto engine = NewEngine(true);
  ASSERT_NE(engine, nullptr);
  const std::vector<TokenId> prefix = RandomTokens(3, 150, TinyGemma4().vocab);
  const std::vector<TokenId> next = RandomTokens(4, 50, TinyGemma4().vocab);
  const SequenceHandle sequence = Create(*engine), fresh = Create(*engine);
  (void)Feed(*engine, sequence, prefix, 64);
  (void)Feed(*engine, sequence, RandomTokens(5, 60, TinyGemma4().vocab), 64);
  ASSERT_TRUE(engine->memory().sequences().RemoveRange(sequence, {Pos{150}, kPosEnd}));
  (void)Feed(*engine, fresh, prefix, 64);
  EXPECT_TRUE(SameBits(Feed(*engine, sequence, next, 9), Feed(*engine, fresh, next, 50)));
}

TEST(SharedCellsTest, AShiftGivesTheSameBitsWithAndWithoutDroppedCells) {
  const auto run = [](Engine& engine) {
    const SequenceHandle sequence = Create(engine);
    std::vector<float> logits =
        Feed(engine, sequence, RandomTokens(3, 300, TinyGemma4().vocab), 50);
    EXPECT_TRUE(engine.memory().sequences().RemoveRange(sequence, {Pos{4}, Pos{100}}));
    EXPECT_TRUE(engine.memory().sequences().AddPositions(sequence, {Pos{100}, kPosEnd}, -96));
    const std::vector<float> more =
        Feed(engine, sequence, RandomTokens(4, 70, TinyGemma4().vocab), 20);
    logits.insert(logits.end(), more.begin(), more.end());
    return logits;
  };
  const auto dropping = NewEngine(), keeping = NewEngine(true);
  ASSERT_TRUE(dropping != nullptr && keeping != nullptr);
  EXPECT_TRUE(SameBits(run(*dropping), run(*keeping)));
}

TEST(SharedCellsTest, CellTypesMustFitTheHeadsOfBothLengths) {
  // Heads have 16 elements in layers with a window and 32 in the others.
  auto engine = Engine::Create({.model_path = test::TinyModelPath(TinyGemma4()),
                                .cells = 256,
                                .k_type = kernels::DataType::kQ8_0});
  ASSERT_FALSE(engine.has_value());
  EXPECT_NE(engine.error().message.find("this model's heads have 16"), std::string::npos)
      << engine.error().message;
}

}  // namespace
}  // namespace kvd
