// Tests attention over cells that sequences share, and over long sequences divided into spans. A
// row of logits has the same bits as if its sequence were computed alone on one thread,
// independently of the other sequences in the step.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "engine/forward/attention/attention_plan.h"
#include "engine/model/model_config.h"
#include "kernels/kernel_table.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd::shared_attention_test {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;
using test::TinyLlama;

// Length of the common prefix: two whole spans of attention
// (engine/forward/attention/attention_plan.h) and a part of a third span, which ends within a
// block.
constexpr std::size_t kPrefix = 2 * kSpanCells + 75;

struct Named {
  std::string name;
  ModelShape shape;
};

std::vector<Named> Shapes() {
  std::vector<Named> shapes = {{"llama", TinyLlama()}, {"window", TinyLlama()}};
  for (Named& named : shapes) named.shape.context = 2048;
  // The window of 300 positions contains a boundary between spans.
  shapes[1].shape.architecture = Architecture::kGemma2;
  shapes[1].shape.window = 300;
  return shapes;
}

// One sequence of the step: a fork of the common prefix that is extended, shifted and appended to.
struct Branch {
  std::size_t kept;      // number of tokens kept of the common prefix
  std::size_t own;       // number of tokens added after the prefix before the step
  std::int32_t shifted;  // shift of the positions from 200 on
  std::size_t appended;  // number of tokens that the tested step appends
};

constexpr Branch kBranches[] = {
    {kPrefix, 0, 0, 1},  {kPrefix, 0, 0, 1},   {kPrefix, 0, 40, 1},        {kPrefix, 9, 0, 3},
    {kPrefix, 40, 0, 1}, {300, 0, 0, 1},       {kSpanCells, 300, 0, 1},    {0, 20, 0, 1},
    {0, 600, 0, 1},      {kPrefix, 0, 0, 150}, {kSpanCells - 1, 0, 0, 90},
};

class SharedAttentionTest : public ::testing::TestWithParam<Named> {
 protected:
  // Makes the sequences of kBranches[first, end) in their state before the step.
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

  // Runs one step of the sequences of kBranches[first, end) and returns the logits of the last
  // token of each.
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
  // Expects each row to have the bits of its sequence computed alone. `deterministic`: the option
  // of the engine; it selects the f32 form of attention, otherwise the table's default form is
  // used.
  void ExpectTheBitsOfEachAlone(bool deterministic);
};

void SharedAttentionTest::ExpectTheBitsOfEachAlone(bool deterministic) {
  const std::size_t count = std::size(kBranches);
  // The amx table computes products of many rows in another form without --deterministic.
  const bool has_one_form =
      deterministic || kernels::SelectKernels("").table->bf16_quant_rows_min == 0;
  const std::string table = has_one_form ? "" : "avx512";
  std::vector<std::vector<float>> alone;
  // Sanitizer builds compute every fourth branch alone.
  const std::size_t apart = test::Stride(4);
  for (std::size_t i = 0; i < count; i += apart) {
    const auto engine = MakeEngine(
        GetParam().shape,
        {.cells = 4096, .threads = 1, .deterministic = deterministic, .kernel_table = table});
    ASSERT_NE(engine, nullptr);
    alone.push_back(Step(*engine, i, i + 1)[0]);
  }
  // With one thread no attention is divided into spans; with five threads all attention is.
  for (const std::uint32_t threads : {1u, 2u, 5u}) {
    const auto engine = MakeEngine(
        GetParam().shape,
        {.cells = 4096, .threads = threads, .deterministic = deterministic, .kernel_table = table});
    ASSERT_NE(engine, nullptr);
    const auto together = Step(*engine, 0, count);
    for (std::size_t i = 0; i < count; i += apart) {
      EXPECT_TRUE(SameBits(together[i], alone[i / apart]))
          << "branch " << i << ", threads " << threads;
    }
    const auto one = Step(*engine, 4, 5);
    EXPECT_TRUE(SameBits(one[0], alone[4 / apart])) << "branch 4 alone, threads " << threads;
  }
}

TEST_P(SharedAttentionTest, EachRowHasTheBitsOfItsSequenceComputedAlone) {
  ExpectTheBitsOfEachAlone(true);
}

TEST_P(SharedAttentionTest, EachRowHasTheSameBitsWithoutTheDeterministicFlag) {
  ExpectTheBitsOfEachAlone(false);
}

INSTANTIATE_TEST_SUITE_P(Reaches, SharedAttentionTest, ::testing::ValuesIn(Shapes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace kvd::shared_attention_test
