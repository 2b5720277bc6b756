// Tests that a model whose windowed layers drop cells computes the same bits as with all cells and
// uses fewer blocks.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::TinyLlama;

ModelShape TinyGemma() {
  ModelShape shape = TinyLlama();
  shape.architecture = Architecture::kGemma2;
  shape.window = 45;
  return shape;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST(SlidingWindowTest, DroppedCellsChangeNoLogits) {
  const auto dropping = MakeEngine(TinyGemma(), {.cells = 1024, .deterministic = true});
  const auto keeping =
      MakeEngine(TinyGemma(), {.cells = 1024, .swa_full = true, .deterministic = true});
  ASSERT_TRUE(dropping != nullptr && keeping != nullptr);
  const std::vector<TokenId> tokens = RandomTokens(3, 300, TinyGemma().vocab);
  const std::vector<TokenId> next = RandomTokens(4, 70, TinyGemma().vocab);
  const auto run = [&](Engine& engine) {
    Memory& memory = engine.memory();
    const SequenceHandle sequence = *memory.sequences().Create({});
    std::vector<float> logits = Feed(engine, sequence, tokens, 50);
    SequenceHandle fork{};
    EXPECT_TRUE(memory.sequences().Fork(sequence, {}, {&fork, 1}));
    // A context shift of the sequence; the fork is not shifted.
    EXPECT_TRUE(memory.sequences().RemoveRange(sequence, {Pos{4}, Pos{100}}));
    EXPECT_TRUE(memory.sequences().AddPositions(sequence, {Pos{100}, kPosEnd}, -96));
    for (const SequenceHandle handle : {sequence, fork}) {
      const std::vector<float> more = Feed(engine, handle, next, 20);
      logits.insert(logits.end(), more.begin(), more.end());
    }
    return logits;
  };
  ExpectSameBits(run(*dropping), run(*keeping));
  const PoolUsage usage = dropping->memory().Usage();
  ASSERT_EQ(usage.group_count, 2u);
  EXPECT_EQ(keeping->memory().Usage().group_count, 1u);
  EXPECT_LE(usage.groups[1].total_blocks - usage.groups[1].free_blocks, 6u);
  EXPECT_GE(usage.groups[0].total_blocks - usage.groups[0].free_blocks, 12u);
}

TEST(SlidingWindowTest, RewindingBeyondTheWindowIsRefusedAndChangesNothing) {
  const auto engine = MakeEngine(TinyGemma(), {.cells = 1024, .deterministic = true});
  ASSERT_NE(engine, nullptr);
  const std::vector<TokenId> tokens = RandomTokens(3, 300, TinyGemma().vocab);
  const SequenceHandle sequence = *engine->memory().sequences().Create({});
  (void)Feed(*engine, sequence, tokens, 300);
  EXPECT_EQ(engine->memory().sequences().RemoveRange(sequence, {Pos{200}, kPosEnd}).error().code,
            Code::kWindowLost);
  EXPECT_EQ(engine->memory().sequences().Query(sequence)->cell_count, 300u);
}

}  // namespace
}  // namespace kvd
