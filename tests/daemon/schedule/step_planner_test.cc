#include "daemon/schedule/step_planner.h"

#include <gtest/gtest.h>

#include <array>
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

TEST(StepPlannerTest, DecodeRowsComeFirstAndPrefillGetsItsChunk) {
  StepPlanner planner(512);
  constexpr std::size_t kChunk = 128;
  const std::vector<StepCandidate> candidates = {{kA, 4000}, {kB, 1}, {kC, 1}};
  const auto shares = planner.Plan(candidates, kChunk);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].tokens, 1u);
  EXPECT_EQ(shares[1].tokens, 1u);
  EXPECT_EQ(TokensOf(shares, 0), 128u);
}

TEST(StepPlannerTest, PrefillAloneTakesTheWholeStep) {
  StepPlanner planner(512);
  constexpr std::size_t kChunk = 128;
  const std::vector<StepCandidate> candidates = {{kA, 4000}};
  EXPECT_EQ(TokensOf(planner.Plan(candidates, kChunk), 0), 512u);
}

TEST(StepPlannerTest, TwoPromptsShareAStepEvenly) {
  StepPlanner planner(512);
  constexpr std::size_t kChunk = 128;
  const std::vector<StepCandidate> candidates = {{kA, 4000}, {kB, 4000}};
  const auto shares = planner.Plan(candidates, kChunk);
  EXPECT_EQ(TokensOf(shares, 0), 256u);
  EXPECT_EQ(TokensOf(shares, 1), 256u);
}

TEST(StepPlannerTest, ASessionWithManyPromptsGetsNoMoreThanAnother) {
  StepPlanner planner(512);
  constexpr std::size_t kChunk = 512;
  std::vector<StepCandidate> candidates(8, {kA, 4000});
  candidates.push_back({kB, 4000});
  const auto shares = planner.Plan(candidates, kChunk);
  EXPECT_EQ(TokensOf(shares, 8), 256u);
}

TEST(StepPlannerTest, RowsThatOneSessionLeavesGoToOthers) {
  StepPlanner planner(512);
  constexpr std::size_t kChunk = 512;
  const std::vector<StepCandidate> candidates = {{kA, 10}, {kB, 4000}};
  const auto shares = planner.Plan(candidates, kChunk);
  EXPECT_EQ(TokensOf(shares, 0), 10u);
  EXPECT_EQ(TokensOf(shares, 1), 502u);
}

TEST(StepPlannerTest, MoreDecodeRowsThanAStepHoldsTakeTurns) {
  StepPlanner planner(4);
  constexpr std::size_t kChunk = 4;
  std::vector<StepCandidate> candidates;
  for (std::uint64_t session = 1; session <= 10; ++session) {
    candidates.push_back({static_cast<SessionId>(session), 1});
  }
  std::map<std::size_t, std::size_t> served;
  for (int step = 0; step < 5; ++step) {
    for (const StepShare& share : planner.Plan(candidates, kChunk)) {
      served[share.candidate] += share.tokens;
      planner.AddServed(candidates[share.candidate], share.tokens);
    }
  }
  EXPECT_EQ(served.size(), 10u);
  for (const auto& [candidate, tokens] : served) EXPECT_EQ(tokens, 2u) << candidate;
}

TEST(StepPlannerTest, AnIdleSessionEarnsNoCredit) {
  StepPlanner planner(64);
  constexpr std::size_t kChunk = 64;
  const std::vector<StepCandidate> alone = {{kA, 100000}};
  for (int step = 0; step < 100; ++step) {
    (void)planner.Plan(alone, kChunk);
    planner.AddServed(alone[0], 64);
  }
  const std::vector<StepCandidate> both = {{kA, 100000}, {kB, 100000}};
  const auto shares = planner.Plan(both, kChunk);
  EXPECT_EQ(TokensOf(shares, 0), 32u);
  EXPECT_EQ(TokensOf(shares, 1), 32u);
}

TEST(StepPlannerTest, NoCandidateGetsMoreThanItWantsAndStepsNeverOverflow) {
  StepPlanner planner(100);
  constexpr std::size_t kChunk = 70;
  const std::vector<StepCandidate> candidates = {{kA, 1}, {kA, 33}, {kB, 0}, {kB, 1}, {kC, 500}};
  const auto shares = planner.Plan(candidates, kChunk);
  std::size_t total = 0;
  for (const StepShare& share : shares) {
    EXPECT_LE(share.tokens, candidates[share.candidate].wanted_tokens);
    total += share.tokens;
  }
  EXPECT_EQ(total, 72u);
  EXPECT_EQ(TokensOf(shares, 2), 0u);
}

TEST(StepPlannerTest, AUserWithManySessionsGetsNoMoreThanAnother) {
  StepPlanner planner(512);
  std::vector<StepCandidate> candidates;
  for (std::uint64_t session = 1; session <= 8; ++session) {
    candidates.push_back(
        {.session = static_cast<SessionId>(session), .wanted_tokens = 4000, .owner = OwnerId{1}});
  }
  candidates.push_back(
      {.session = static_cast<SessionId>(9), .wanted_tokens = 4000, .owner = OwnerId{2}});
  EXPECT_EQ(TokensOf(planner.Plan(candidates, 512), 8), 256u);
}

TEST(StepPlannerTest, DecodeRowsOfTwoUsersTakeTurnsWhateverTheNumberOfTheirSessions) {
  StepPlanner planner(4);
  std::vector<StepCandidate> candidates;
  for (std::uint64_t session = 1; session <= 8; ++session) {
    candidates.push_back(
        {.session = static_cast<SessionId>(session), .wanted_tokens = 1, .owner = OwnerId{1}});
  }
  for (std::uint64_t session = 9; session <= 10; ++session) {
    candidates.push_back(
        {.session = static_cast<SessionId>(session), .wanted_tokens = 1, .owner = OwnerId{2}});
  }
  std::map<OwnerId, std::size_t> served;
  for (int step = 0; step < 10; ++step) {
    for (const StepShare& share : planner.Plan(candidates, 4)) {
      served[candidates[share.candidate].owner] += share.tokens;
      planner.AddServed(candidates[share.candidate], share.tokens);
    }
  }
  EXPECT_EQ(served[OwnerId{1}], 20u);
  EXPECT_EQ(served[OwnerId{2}], 20u);
}

// Returns the tokens that each of two users is served in `steps` steps. `rows`: the number of
// decode rows that each user wants in each step.
std::array<std::size_t, 2> ServedOf(std::array<std::size_t, 2> rows,
                                    std::array<std::uint32_t, 2> weights, std::size_t step_tokens,
                                    int steps) {
  StepPlanner planner(step_tokens);
  std::vector<StepCandidate> candidates;
  for (const std::size_t user : {0u, 1u}) {
    candidates.insert(candidates.end(), rows[user],
                      {.session = static_cast<SessionId>(user + 1),
                       .wanted_tokens = 1,
                       .owner = OwnerId{user + 1},
                       .weight = weights[user]});
  }
  std::array<std::size_t, 2> served{};
  for (int step = 0; step < steps; ++step) {
    for (const StepShare& share : planner.Plan(candidates, step_tokens)) {
      served[share.candidate < rows[0] ? 0 : 1] += share.tokens;
      planner.AddServed(candidates[share.candidate], share.tokens);
    }
  }
  return served;
}

TEST(StepPlannerTest, SixtyFourDecodeRowsGetAsManyTokensAsHalfAStepOfRows) {
  constexpr int kSteps = 200;
  for (const std::size_t step_tokens : {1u, 2u, 3u, 7u, 8u, 16u, 48u, 64u}) {
    // A user with half of the rows of a step or more waits for more, as the one with 64 rows does.
    for (const std::size_t rows : {(step_tokens + 1) / 2, std::size_t{40}}) {
      const auto served = ServedOf({64, rows}, {1, 1}, step_tokens, kSteps);
      EXPECT_EQ(served[0] + served[1], step_tokens * kSteps) << "the steps are full";
      EXPECT_NEAR(static_cast<double>(served[0]) / static_cast<double>(served[1]), 1.0, 0.1)
          << step_tokens << " tokens in a step, " << rows << " rows beside 64";
    }
  }
}

TEST(StepPlannerTest, ASingleDecodeRowBesideSixtyFourIsInEachStep) {
  constexpr int kSteps = 200;
  for (const std::size_t step_tokens : {2u, 8u, 16u, 64u}) {
    const auto served = ServedOf({64, 1}, {1, 1}, step_tokens, kSteps);
    // One token in each step is the most that a sequence can decode. The others share the rest.
    EXPECT_EQ(served[1], kSteps) << step_tokens;
    EXPECT_EQ(served[0], (step_tokens - 1) * kSteps) << step_tokens;
  }
}

TEST(StepPlannerTest, DecodeRowsBeyondOneStepAreDividedByWeights) {
  for (const std::size_t step_tokens : {8u, 32u}) {
    const auto served = ServedOf({64, 64}, {1, 3}, step_tokens, 200);
    EXPECT_NEAR(static_cast<double>(served[1]) / static_cast<double>(served[0]), 3.0, 0.3);
  }
}

TEST(StepPlannerTest, PromptsThatOthersWaitForGoFirstAmongThoseOfTheirUser) {
  StepPlanner planner(512);
  const std::vector<StepCandidate> candidates = {
      {.session = kA, .wanted_tokens = 4000, .owner = OwnerId{1}},
      {.session = kB, .wanted_tokens = 4000, .owner = OwnerId{1}, .is_awaited = true},
      {.session = kC, .wanted_tokens = 4000, .owner = OwnerId{2}}};
  const auto shares = planner.Plan(candidates, 512);
  EXPECT_EQ(TokensOf(shares, 0), 0u);
  EXPECT_EQ(TokensOf(shares, 1), 256u);
  EXPECT_EQ(TokensOf(shares, 2), 256u) << "of another user, who owes that prompt nothing";
}

TEST(StepPlannerTest, WithinASessionThePromptThatOthersWaitForGoesFirst) {
  StepPlanner planner(512);
  const std::vector<StepCandidate> candidates = {
      {.session = kA, .wanted_tokens = 4000},
      {.session = kA, .wanted_tokens = 100, .is_awaited = true},
      {.session = kB, .wanted_tokens = 32}};
  const auto shares = planner.Plan(candidates, 512);
  EXPECT_EQ(TokensOf(shares, 1), 100u);
  EXPECT_EQ(TokensOf(shares, 2), 32u);
  EXPECT_EQ(TokensOf(shares, 0), 512u - 132u);
}

TEST(StepPlannerTest, PromptsKeepTheirChunkWhileAClientChoosesItsNextToken) {
  StepPlanner planner(512);
  const std::vector<StepCandidate> decoding = {{kA, 1}, {kB, 4000}};
  const std::vector<StepCandidate> thinking = {{kA, 0}, {kB, 4000}};
  EXPECT_EQ(TokensOf(planner.Plan(decoding, 64), 1), 64u);
  for (std::uint64_t plan = 0; plan < StepPlanner::kPlansAfterDecoding; ++plan) {
    EXPECT_EQ(TokensOf(planner.Plan(thinking, 64), 1), 64u);
  }
  EXPECT_EQ(TokensOf(planner.Plan(thinking, 64), 1), 512u);
}

// Plans steps until the last candidate, a prompt, is done, and returns the number of steps. 1000:
// the prompt is not done within 1000 steps.
std::size_t PlansUntilDone(StepPlanner& planner, std::vector<StepCandidate> candidates,
                           std::size_t prefill_tokens) {
  StepCandidate& prompt = candidates.back();
  std::size_t plans = 0;
  while (prompt.wanted_tokens > 0 && plans < 1000) {
    ++plans;
    for (const StepShare& share : planner.Plan(candidates, prefill_tokens)) {
      planner.AddServed(candidates[share.candidate], share.tokens);
      if (share.candidate == candidates.size() - 1) prompt.wanted_tokens -= share.tokens;
    }
  }
  return plans;
}

TEST(StepPlannerTest, TheStepsOfAPromptDoNotDependOnTheNumberOfDecodeRows) {
  for (const std::size_t decode_rows : {512u, 2048u}) {
    StepPlanner planner(512);
    std::vector<StepCandidate> candidates(decode_rows,
                                          {.session = kA, .wanted_tokens = 1, .owner = OwnerId{1}});
    candidates.push_back({.session = kB, .wanted_tokens = 640, .owner = OwnerId{2}});
    EXPECT_EQ(PlansUntilDone(planner, candidates, 256), 10u) << decode_rows << " decode rows";
  }
}

TEST(StepPlannerTest, TheShareOfAPromptIsLimitedByTime) {
  StepPlanner planner(512);
  std::vector<StepCandidate> candidates(600,
                                        {.session = kA, .wanted_tokens = 1, .owner = OwnerId{1}});
  candidates.push_back({.session = kB, .wanted_tokens = 4000, .owner = OwnerId{2}});
  const auto shares = planner.Plan(candidates, 32);
  EXPECT_EQ(TokensOf(shares, 600), 32u);
  EXPECT_EQ(shares.size(), 480u + 1u);
}

TEST(StepPlannerTest, TwoUsersShareStepsOfFewRowsEvenly) {
  for (const std::size_t step_tokens : {1u, 4u}) {
    StepPlanner planner(step_tokens);
    std::vector<StepCandidate> candidates(8,
                                          {.session = kA, .wanted_tokens = 1, .owner = OwnerId{1}});
    candidates.push_back({.session = kB, .wanted_tokens = 100, .owner = OwnerId{2}});
    std::size_t rows = 0, prompt = 0;
    for (int plan = 0; plan < 20; ++plan) {
      for (const StepShare& share : planner.Plan(candidates, 64)) {
        planner.AddServed(candidates[share.candidate], share.tokens);
        (share.candidate == 8 ? prompt : rows) += share.tokens;
      }
    }
    EXPECT_EQ(rows, 10 * step_tokens);
    EXPECT_EQ(prompt, 10 * step_tokens);
  }
}

TEST(StepPlannerTest, DecodeRowsOfTwoUsersTakeTurnsBesideAPrompt) {
  StepPlanner planner(64);
  std::vector<StepCandidate> candidates(300,
                                        {.session = kA, .wanted_tokens = 1, .owner = OwnerId{1}});
  candidates.resize(320, {.session = kB, .wanted_tokens = 1, .owner = OwnerId{2}});
  candidates.push_back({.session = kC, .wanted_tokens = 4000, .owner = OwnerId{3}});
  std::map<OwnerId, std::size_t> rows;
  for (const StepShare& share : planner.Plan(candidates, 64))
    rows[candidates[share.candidate].owner] += share.tokens;
  EXPECT_EQ(rows[OwnerId{1}], 16u);
  EXPECT_EQ(rows[OwnerId{2}], 16u);
  EXPECT_EQ(rows[OwnerId{3}], 32u);
}

TEST(StepPlannerTest, WorkTakesNoRowsAndIsNeverADecodeRow) {
  StepPlanner planner(64);
  std::vector<StepCandidate> candidates(100,
                                        {.session = kA, .wanted_tokens = 1, .owner = OwnerId{1}});
  candidates.push_back(
      {.session = kB, .wanted_tokens = 4000, .owner = OwnerId{2}, .is_work = true});
  auto shares = planner.Plan(candidates, 48);
  EXPECT_EQ(shares.size(), 64u + 1u);
  EXPECT_EQ(TokensOf(shares, 100), 48u);
  // Without decode rows, a prompt is not limited to a chunk.
  StepPlanner idle(64);
  const std::vector<StepCandidate> one = {
      {.session = kB, .wanted_tokens = 1, .owner = OwnerId{2}, .is_work = true},
      {.session = kC, .wanted_tokens = 4000, .owner = OwnerId{3}}};
  shares = idle.Plan(one, 16);
  EXPECT_EQ(TokensOf(shares, 0), 1u);
  EXPECT_EQ(TokensOf(shares, 1), 63u);
}

TEST(StepPlannerTest, WorkAndPromptsShareWhatFitsBesideDecodeRows) {
  StepPlanner planner(512);
  const std::vector<StepCandidate> candidates = {
      {.session = kA, .wanted_tokens = 1, .owner = OwnerId{1}},
      {.session = kB, .wanted_tokens = 4000, .owner = OwnerId{2}, .is_work = true},
      {.session = kC, .wanted_tokens = 4000, .owner = OwnerId{3}}};
  const auto shares = planner.Plan(candidates, 128);
  EXPECT_EQ(TokensOf(shares, 1), 64u);
  EXPECT_EQ(TokensOf(shares, 2), 64u);
}

TEST(StepPlannerTest, TokensAreDividedInProportionToTheUsersWeights) {
  StepPlanner planner(512);
  std::vector<StepCandidate> candidates = {
      {.session = kA, .wanted_tokens = 100'000, .owner = OwnerId{1}, .weight = 3},
      {.session = kB, .wanted_tokens = 100'000, .owner = OwnerId{2}, .weight = 1},
      {.session = kC, .wanted_tokens = 1, .owner = OwnerId{3}, .weight = 1000}};
  std::map<OwnerId, std::size_t> served;
  for (int step = 0; step < 100; ++step) {
    for (const StepShare& share : planner.Plan(candidates, 512)) {
      served[candidates[share.candidate].owner] += share.tokens;
      planner.AddServed(candidates[share.candidate], share.tokens);
    }
  }
  EXPECT_EQ(served[OwnerId{3}], 100u);
  const double ratio =
      static_cast<double>(served[OwnerId{1}]) / static_cast<double>(served[OwnerId{2}]);
  EXPECT_NEAR(ratio, 3.0, 0.1);
}

}  // namespace
}  // namespace kvd
