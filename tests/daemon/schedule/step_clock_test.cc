#include "daemon/schedule/step_clock.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

// The duration of a step on a simulated machine: 40 ms, and 2 ms for each prompt token.
double Seconds(std::size_t prefill_tokens) {
  return 0.040 + 0.002 * static_cast<double>(prefill_tokens);
}

TEST(StepClockTest, WithoutATimeLimitChunksHaveTheLargestSize) {
  StepClock clock(0.0);
  EXPECT_EQ(clock.PrefillTokens(256), 256u);
  clock.AddStep(1, 256, 100.0);
  EXPECT_EQ(clock.PrefillTokens(256), 256u);
}

TEST(StepClockTest, TheFirstChunkIsSmall) {
  EXPECT_EQ(StepClock(0.2).PrefillTokens(256), StepClock::kFirstTokens);
  EXPECT_EQ(StepClock(0.2).PrefillTokens(16), 16u);
}

TEST(StepClockTest, ChunksShrinkToTheTimeLimit) {
  StepClock clock(0.2);
  for (int step = 0; step < 50; ++step) {
    clock.AddStep(3, 0, Seconds(0));
    const std::size_t tokens = clock.PrefillTokens(256);
    clock.AddStep(3, tokens, Seconds(tokens));
  }
  // 80 tokens fit into 0.2 s; the clock rounds down to 64.
  EXPECT_EQ(clock.PrefillTokens(256), 64u);
  EXPECT_LE(Seconds(clock.PrefillTokens(256)), 0.2);
}

TEST(StepClockTest, ChunksShrinkWhenStepsBecomeSlower) {
  StepClock clock(0.2);
  for (int step = 0; step < 50; ++step) clock.AddStep(1, 64, 0.05);
  EXPECT_EQ(clock.PrefillTokens(256), 256u);
  for (int step = 0; step < 50; ++step) clock.AddStep(1, 64, 0.2);
  EXPECT_EQ(clock.PrefillTokens(256), 64u);
}

TEST(StepClockTest, PromptsProgressEvenIfNoTimeIsLeft) {
  StepClock clock(0.010);
  clock.AddStep(8, 0, 0.040);
  clock.AddStep(8, 64, 0.4);
  EXPECT_EQ(clock.PrefillTokens(256), StepClock::kPortionTokens);
  EXPECT_EQ(clock.PrefillTokens(7), 7u);
}

TEST(StepClockTest, ShortLastChunksDoNotChangeTheEstimate) {
  StepClock clock(0.2);
  for (int step = 0; step < 20; ++step) clock.AddStep(1, 64, 0.064);
  const std::size_t before = clock.PrefillTokens(256);
  clock.AddStep(1, 2, 0.060);
  EXPECT_EQ(clock.PrefillTokens(256), before);
}

TEST(StepClockTest, WorkIsCountedAsPromptTokensOfEqualTime) {
  StepClock clock(0.2);
  EXPECT_EQ(clock.InPromptTokens(WorkKind::kRewrite, 100), 100u) << "nothing is known";
  EXPECT_EQ(clock.TokensFor(WorkKind::kRewrite, 400), StepClock::kFirstTokens);
  EXPECT_EQ(clock.TokensFor(WorkKind::kRewrite, 10), 10u);
  clock.AddWork(WorkKind::kRewrite, 64, 0.064);
  EXPECT_EQ(clock.InPromptTokens(WorkKind::kRewrite, 100), 100u) << "it is the measure itself";
  EXPECT_EQ(clock.PrefillTokens(512), 192u);
  for (int step = 0; step < 50; ++step) clock.AddStep(0, 64, 0.64);
  clock.AddWork(WorkKind::kEncode, 10, 0.5);
  EXPECT_EQ(clock.InPromptTokens(WorkKind::kRewrite, 95), 10u);
  EXPECT_EQ(clock.TokensFor(WorkKind::kRewrite, 32), 320u);
  EXPECT_EQ(clock.InPromptTokens(WorkKind::kEncode, 10), 50u);
  EXPECT_EQ(clock.TokensFor(WorkKind::kEncode, 32), 6u);
  EXPECT_EQ(clock.TokensFor(WorkKind::kEncode, 1), 1u) << "at least one token";
}

}  // namespace
}  // namespace kvd
