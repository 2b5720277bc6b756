// Tests that a step allocates no memory for each of its tokens, for a small model of each kind.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::RandomTokens;

struct Named {
  std::string name;
  ModelShape shape;
};

std::vector<Named> Shapes() {
  std::vector<Named> shapes;
  const auto add = [&](std::string name, Architecture architecture) {
    shapes.push_back({std::move(name), test::TinyOf(architecture)});
  };
  add("dense", Architecture::kLlama);
  add("windows", Architecture::kGemma2);
  add("experts", Architecture::kQwen3Moe);
  add("experts_with_biases", Architecture::kGptOss);
  add("latent_experts", Architecture::kNemotronHMoe);
  add("latent_rows", Architecture::kDeepseek2);
  shapes.back().shape.head_dim = 64;
  shapes.back().shape.query_rank = 32;
  add("keys_and_values_of_latent_rows", Architecture::kDeepseek2);
  shapes.back().shape.head_dim = 64;
  shapes.back().shape.caches_latent = false;
  add("recurrent", Architecture::kMamba2);
  add("hybrid", Architecture::kQwen35);
  add("hybrid_experts", Architecture::kQwen35Moe);
  add("delta_attention", Architecture::kKimiLinear);
  shapes.back().shape.head_dim = 64;
  shapes.back().shape.leading_dense = 1;
  add("shared_cells", Architecture::kGemma4);
  add("experts_beside_feed_forward", Architecture::kGemma4);
  shapes.back().shape.name = "tiny-experts";
  shapes.back().shape.experts = 5;
  return shapes;
}

class StepAllocationsTest : public ::testing::TestWithParam<Named> {
 protected:
  static constexpr std::size_t kSequences = 3;

  void SetUp() override {
    engine_ = test::MakeEngine(GetParam().shape, {.cells = 2048, .threads = 2});
    ASSERT_NE(engine_, nullptr);
    logits_.resize(kSequences * engine_->config().vocab_size);
    tokens_ = RandomTokens(1, 64, engine_->config().vocab_size);
    items_.resize(kSequences);
    for (StepItem& item : items_) item.sequence = *engine_->memory().sequences().Create({});
  }
  // Appends `count` tokens to every sequence in one step and returns the number of allocations.
  std::size_t Step(std::size_t count) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      items_[i].pos = Pos{position_};
      items_[i].tokens = std::span(tokens_).subspan(i, count);
      items_[i].first_logits_row = count - 1;
      items_[i].logits = logits_.data() + i * engine_->config().vocab_size;
    }
    const std::size_t before = AllocationCount();
    engine_->Step(items_);
    const std::size_t allocations = AllocationCount() - before;
    for (const StepItem& item : items_) EXPECT_TRUE(item.status.has_value());
    position_ += static_cast<std::int32_t>(count);
    return allocations;
  }

  std::unique_ptr<Engine> engine_;
  std::vector<float> logits_;
  std::vector<TokenId> tokens_;
  std::vector<StepItem> items_;
  std::int32_t position_ = 0;
};

// Vectors that hold a sequence's tokens and cells grow by half or more, and a window that moves
// drops blocks, so a few steps of many allocate. The first steps, with longer sequences, grow the
// buffers that all sequences share.
TEST_P(StepAllocationsTest, StepsOfOneTokenAllocateNothingForTheToken) {
  constexpr std::size_t kSteps = 64;
  Step(60);
  Step(60);
  for (std::size_t i = 0; i < 4; ++i) Step(1);
  for (StepItem& item : items_) {
    ASSERT_TRUE(engine_->memory().sequences().Drop(item.sequence).has_value());
    item.sequence = *engine_->memory().sequences().Create({});
  }
  position_ = 0;
  Step(40);
  Step(1);
  std::size_t allocations = 0;
  for (std::size_t i = 0; i < kSteps; ++i) allocations += Step(1);
  EXPECT_LT(allocations, kSteps / 4);
}

// A step of many tokens takes new blocks of cells, but nothing for a single token.
TEST_P(StepAllocationsTest, AStepOfManyTokensAllocatesNothingForEachToken) {
  Step(60);
  Step(60);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(Step(40), 40u);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, StepAllocationsTest, ::testing::ValuesIn(Shapes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace kvd
