// Attention over cells that sequences share, and over long sequences cut into spans: a row's bits
// are those of its sequence alone on one thread, whoever else is in the step.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "engine/layers/attention_plan.h"
#include "engine/model_config.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::TinyLlama;

// Three spans of attention (engine/layers/attention_plan.h), the last one begun, within a block.
constexpr std::size_t kPrefix = 2 * kSpanCells + 75;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Named {
  std::string name;
  ModelShape shape;
};

std::vector<Named> Shapes() {
  std::vector<Named> shapes = {{"llama", TinyLlama()}, {"window", TinyLlama()}};
  for (Named& named : shapes) named.shape.context = 2048;
  // Its window reaches back over the border of a span.
  shapes[1].shape.architecture = Architecture::kGemma2;
  shapes[1].shape.window = 300;
  return shapes;
}

// What one sequence of the step does, from the common prefix on.
struct Branch {
  std::size_t kept;      // tokens of the prefix
  std::size_t own;       // tokens of its own behind them
  std::int32_t shifted;  // added to all its positions
  std::size_t appended;  // in the step that is looked at
};

constexpr Branch kBranches[] = {
    {kPrefix, 0, 0, 1},  {kPrefix, 0, 0, 1},   {kPrefix, 0, 40, 1},        {kPrefix, 9, 0, 3},
    {kPrefix, 40, 0, 1}, {300, 0, 0, 1},       {kSpanCells, 300, 0, 1},    {0, 20, 0, 1},
    {0, 600, 0, 1},      {kPrefix, 0, 0, 150}, {kSpanCells - 1, 0, 0, 90},
};

class SharedAttentionTest : public ::testing::TestWithParam<Named> {
 protected:
  // The sequences of kBranches, or the one of them, as they are before the step.
  std::vector<SequenceHandle> Sequences(Engine& engine, std::size_t first, std::size_t end) {
    const std::uint32_t vocab = engine.config().vocab_size;
    const SequenceHandle base = *engine.memory().sequences().Create({});
    const std::vector<TokenId> prefix = RandomTokens(1, kPrefix, vocab);
    std::vector<SequenceHandle> sequences(end - first);
    std::size_t depth = 0;
    for (const std::size_t kept :
         {std::size_t{0}, kSpanCells - 1, kSpanCells, std::size_t{300}, kPrefix}) {
      Feed(engine, base,
           {prefix.begin() + static_cast<std::ptrdiff_t>(depth),
            prefix.begin() + static_cast<std::ptrdiff_t>(kept)},
           64);
      depth = kept;
      for (std::size_t i = first; i < end; ++i) {
        if (kBranches[i].kept != kept) continue;
        EXPECT_TRUE(engine.memory().sequences().Fork(base, {}, {&sequences[i - first], 1}));
      }
    }
    for (std::size_t i = first; i < end; ++i) {
      const Branch& branch = kBranches[i];
      const SequenceHandle sequence = sequences[i - first];
      if (branch.own != 0) Feed(engine, sequence, RandomTokens(10 + i, branch.own, vocab), 64);
      if (branch.shifted != 0) {
        EXPECT_TRUE(engine.memory().sequences().AddPositions(
            sequence, {.begin = Pos{200}, .end = kPosEnd}, branch.shifted));
      }
    }
    return sequences;
  }

  // Logits of the last token of each sequence after one step of all of them.
  std::vector<std::vector<float>> Step(Engine& engine, std::size_t first, std::size_t end) {
    const std::vector<SequenceHandle> sequences = Sequences(engine, first, end);
    std::vector<std::vector<float>> logits(end - first);
    std::vector<std::vector<TokenId>> tokens(end - first);
    std::vector<StepItem> items;
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t count = kBranches[i].appended;
      logits[i - first].resize(engine.config().vocab_size);
      tokens[i - first] = RandomTokens(100 + i, count, engine.config().vocab_size);
      items.push_back({.sequence = sequences[i - first],
                       .pos = engine.memory().sequences().Query(sequences[i - first])->next_pos,
                       .tokens = tokens[i - first],
                       .first_logits_row = count - 1,
                       .logits = logits[i - first].data()});
    }
    engine.Step(items);
    for (const StepItem& item : items) EXPECT_TRUE(item.status) << item.status.error().message;
    return logits;
  }
  // In attention's f32 form, or in the one that the table has without the flag.
  void ExpectTheBitsOfEachAlone(bool deterministic);
};

void SharedAttentionTest::ExpectTheBitsOfEachAlone(bool deterministic) {
  const std::size_t count = std::size(kBranches);
  std::vector<std::vector<float>> alone;
  for (std::size_t i = 0; i < count; ++i) {
    const auto engine =
        MakeEngine(GetParam().shape, {.cells = 4096, .threads = 1, .deterministic = deterministic});
    ASSERT_NE(engine, nullptr);
    alone.push_back(Step(*engine, i, i + 1)[0]);
  }
  // With five threads all is cut into spans, with one nothing is.
  for (const std::uint32_t threads : {1u, 2u, 5u}) {
    const auto engine = MakeEngine(
        GetParam().shape, {.cells = 4096, .threads = threads, .deterministic = deterministic});
    ASSERT_NE(engine, nullptr);
    const auto together = Step(*engine, 0, count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(SameBits(together[i], alone[i])) << "branch " << i << ", threads " << threads;
    }
    const auto one = Step(*engine, 4, 5);
    EXPECT_TRUE(SameBits(one[0], alone[4])) << "a lone row, threads " << threads;
  }
}

TEST_P(SharedAttentionTest, EachRowHasTheBitsOfItsSequenceAloneOnOneThread) {
  ExpectTheBitsOfEachAlone(true);
}

TEST_P(SharedAttentionTest, EachRowHasThemWithoutTheFlagToo) { ExpectTheBitsOfEachAlone(false); }

INSTANTIATE_TEST_SUITE_P(Reaches, SharedAttentionTest, ::testing::ValuesIn(Shapes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace kvd
