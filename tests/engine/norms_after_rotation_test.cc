// Norms of q and k after their rotation (Hunyuan): a shift turns the normed keys, whether it
// rewrites them or attention turns the queries.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::TinyLlama;

// Returns the logits of tokens after a prefix of which 30 tokens were removed.
std::vector<float> LogitsAfterAShift(Architecture architecture, bool llama_shifts,
                                     std::size_t chunk) {
  ModelShape shape = TinyLlama();
  shape.architecture = architecture;
  shape.type = DataType::kF32;
  const auto engine = MakeEngine(shape, {.cells = 512,
                                         .threads = 2,
                                         .k_type = DataType::kF32,
                                         .v_type = DataType::kF32,
                                         .llama_shifts = llama_shifts});
  if (engine == nullptr) return {};
  Sequences& sequences = engine->memory().sequences();
  const SequenceHandle sequence = *sequences.Create({});
  Feed(*engine, sequence, RandomTokens(1, 90, shape.vocab), 64);
  EXPECT_TRUE(sequences.RemoveRange(sequence, {.begin = Pos{10}, .end = Pos{40}}));
  EXPECT_TRUE(sequences.AddPositions(sequence, {.begin = Pos{40}, .end = kPosEnd}, -30));
  // The keys of the tokens that are fed after the shift are normed at other positions than those
  // for which the keys are stored.
  return Feed(*engine, sequence, RandomTokens(2, 40, shape.vocab), chunk);
}

TEST(NormsAfterRotationTest, AShiftGivesTheSameWhetherKeysOrQueriesRotate) {
  for (const Architecture architecture : {Architecture::kHunyuanDense, Architecture::kHunyuanMoe}) {
    const std::vector<float> rewritten = LogitsAfterAShift(architecture, true, 40);
    ASSERT_FALSE(rewritten.empty());
    for (const std::size_t chunk : {1u, 40u}) {
      const std::vector<float> turned = LogitsAfterAShift(architecture, false, chunk);
      ASSERT_EQ(turned.size(), rewritten.size());
      double error = 0, power = 0;
      for (std::size_t i = 0; i < turned.size(); ++i) {
        error += std::pow(double{turned[i]} - double{rewritten[i]}, 2);
        power += std::pow(double{rewritten[i]}, 2);
      }
      EXPECT_LT(error, 1e-10 * power) << "chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace kvd
