// Tests defragmentation with a model: logits that are computed after a defragmentation have the
// same bits as before.
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

TEST(DefragmentationTest, LogitsAreBitIdenticalIfNoKeysAreRotated) {
  const auto engine = MakeEngine(TinyLlama(), {.cells = 4096, .threads = 2, .deterministic = true});
  ASSERT_NE(engine, nullptr);
  Memory& memory = engine->memory();
  const std::vector<TokenId> tokens = RandomTokens(3, 60, TinyLlama().vocab);
  const std::vector<TokenId> next = RandomTokens(4, 5, TinyLlama().vocab);
  std::vector<SequenceHandle> sequences;
  for (int i = 0; i < 12; ++i) {
    sequences.push_back(*memory.sequences().Create({}));
    (void)Feed(*engine, sequences.back(), tokens, 60);
  }
  // The remaining sequences contain a hole, a shift and forks. Every second sequence is dropped.
  ASSERT_TRUE(memory.sequences().RemoveRange(sequences[1], {Pos{10}, Pos{30}}));
  ASSERT_TRUE(memory.sequences().AddPositions(sequences[1], {Pos{30}, kPosEnd}, -20));
  SequenceHandle fork = SequenceHandle::kNone;
  ASSERT_TRUE(memory.sequences().Fork(sequences[1], {}, {&fork, 1}));
  SequenceHandle twin = SequenceHandle::kNone;
  ASSERT_TRUE(memory.sequences().Fork(sequences[3], {}, {&twin, 1}, 40));
  for (int i = 0; i < 12; i += 2) {
    ASSERT_TRUE(memory.sequences().Drop(sequences[static_cast<std::size_t>(i)]));
  }
  const auto continued = [&](SequenceHandle sequence) {
    SequenceHandle copy = SequenceHandle::kNone;
    EXPECT_TRUE(memory.sequences().Fork(sequence, {}, {&copy, 1}));
    std::vector<float> logits = Feed(*engine, copy, next, 2);
    EXPECT_TRUE(memory.sequences().Drop(copy));
    return logits;
  };
  std::vector<std::vector<float>> before;
  for (const SequenceHandle sequence : {sequences[1], sequences[3], fork, twin}) {
    before.push_back(continued(sequence));
  }

  Defragmentation work = engine->StartDefragmentation();
  while (!*work.Slice()) {
  }
  EXPECT_GT(work.report().cells_moved, 100u);
  EXPECT_EQ(work.report().cells_settled, 0u);
  std::size_t at = 0;
  for (const SequenceHandle sequence : {sequences[1], sequences[3], fork, twin}) {
    const std::vector<float> after = continued(sequence);
    ASSERT_EQ(after.size(), before[at].size());
    EXPECT_EQ(std::memcmp(after.data(), before[at].data(), after.size() * sizeof(float)), 0);
    ++at;
  }
}

}  // namespace
}  // namespace kvd
