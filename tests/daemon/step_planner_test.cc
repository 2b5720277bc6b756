#include "daemon/step_planner.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace kvd {
namespace {

constexpr auto kA = static_cast<SessionId>(1);
constexpr auto kB = static_cast<SessionId>(2);
constexpr auto kC = static_cast<SessionId>(3);

std::size_t TokensOf(std::span<const StepShare> shares, std::size_t candidate) {
  for (const StepShare& share : shares) {
    if (share.candidate == candidate) return share.tokens;
  }
  return 0;
}

TEST(StepPlannerTest, DecodeRowsComeFirstAndPrefillIsHeldToItsChunkBesideThem) {
  StepPlanner planner({.step_tokens = 512, .prefill_tokens = 128});
  const std::vector<StepCandidate> candidates = {{kA, 4000}, {kB, 1}, {kC, 1}};
  const auto shares = planner.Plan(candidates);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].tokens, 1u);
  EXPECT_EQ(shares[1].tokens, 1u);
  EXPECT_EQ(TokensOf(shares, 0), 128u);
}

TEST(StepPlannerTest, PrefillAloneTakesTheWholeStep) {
  StepPlanner planner({.step_tokens = 512, .prefill_tokens = 128});
  const std::vector<StepCandidate> candidates = {{kA, 4000}};
  EXPECT_EQ(TokensOf(planner.Plan(candidates), 0), 512u);
}

TEST(StepPlannerTest, TwoPromptsShareAStepEvenly) {
  StepPlanner planner({.step_tokens = 512, .prefill_tokens = 128});
  const std::vector<StepCandidate> candidates = {{kA, 4000}, {kB, 4000}};
  const auto shares = planner.Plan(candidates);
  EXPECT_EQ(TokensOf(shares, 0), 256u);
  EXPECT_EQ(TokensOf(shares, 1), 256u);
}

TEST(StepPlannerTest, ASessionWithManyPromptsGetsNoMoreThanAnother) {
  StepPlanner planner({.step_tokens = 512, .prefill_tokens = 512});
  std::vector<StepCandidate> candidates(8, {kA, 4000});
  candidates.push_back({kB, 4000});
  const auto shares = planner.Plan(candidates);
  EXPECT_EQ(TokensOf(shares, 8), 256u);
}

TEST(StepPlannerTest, WhatOneSessionDoesNotWantGoesToTheOthers) {
  StepPlanner planner({.step_tokens = 512, .prefill_tokens = 512});
  const std::vector<StepCandidate> candidates = {{kA, 10}, {kB, 4000}};
  const auto shares = planner.Plan(candidates);
  EXPECT_EQ(TokensOf(shares, 0), 10u);
  EXPECT_EQ(TokensOf(shares, 1), 502u);
}

TEST(StepPlannerTest, MoreDecodeRowsThanAStepHoldsTakeTurns) {
  StepPlanner planner({.step_tokens = 4, .prefill_tokens = 4});
  std::vector<StepCandidate> candidates;
  for (std::uint64_t session = 1; session <= 10; ++session) {
    candidates.push_back({static_cast<SessionId>(session), 1});
  }
  std::map<std::size_t, std::size_t> served;
  for (int step = 0; step < 5; ++step) {
    for (const StepShare& share : planner.Plan(candidates)) {
      served[share.candidate] += share.tokens;
      planner.AddServed(candidates[share.candidate].session, share.tokens);
    }
  }
  EXPECT_EQ(served.size(), 10u);
  for (const auto& [candidate, tokens] : served) EXPECT_EQ(tokens, 2u) << candidate;
}

TEST(StepPlannerTest, HavingBeenIdleIsNoCredit) {
  StepPlanner planner({.step_tokens = 64, .prefill_tokens = 64});
  const std::vector<StepCandidate> alone = {{kA, 100000}};
  for (int step = 0; step < 100; ++step) {
    (void)planner.Plan(alone);
    planner.AddServed(kA, 64);
  }
  const std::vector<StepCandidate> both = {{kA, 100000}, {kB, 100000}};
  const auto shares = planner.Plan(both);
  EXPECT_EQ(TokensOf(shares, 0), 32u);
  EXPECT_EQ(TokensOf(shares, 1), 32u);
}

TEST(StepPlannerTest, NobodyGetsMoreThanTheyWantAndStepsAreNeverOverfull) {
  StepPlanner planner({.step_tokens = 100, .prefill_tokens = 70});
  const std::vector<StepCandidate> candidates = {{kA, 1}, {kA, 33}, {kB, 0}, {kB, 1}, {kC, 500}};
  const auto shares = planner.Plan(candidates);
  std::size_t total = 0;
  for (const StepShare& share : shares) {
    EXPECT_LE(share.tokens, candidates[share.candidate].wanted_tokens);
    total += share.tokens;
  }
  EXPECT_EQ(total, 72u);
  EXPECT_EQ(TokensOf(shares, 2), 0u);
}

}  // namespace
}  // namespace kvd
