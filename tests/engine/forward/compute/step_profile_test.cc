#include "engine/forward/compute/step_profile.h"

#include <gtest/gtest.h>

#include <numeric>

namespace kvd {
namespace {

void Spend(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::uint64_t Of(const StepTimes& times, StepPhase part) {
  return times.ns[static_cast<std::size_t>(part)];
}

TEST(StepProfileTest, TimeOfAnInnerPhaseDoesNotCountForTheOuterOne) {
  StepProfile profile;
  const auto begin = std::chrono::steady_clock::now();
  profile.BeginStep();
  {
    const StepProfile::Scope outer(&profile, StepPhase::kProjections);
    Spend(std::chrono::microseconds(300));
    {
      const StepProfile::Scope inner(&profile, StepPhase::kAttention);
      EXPECT_EQ(profile.current(), StepPhase::kAttention);
      Spend(std::chrono::microseconds(500));
    }
    EXPECT_EQ(profile.current(), StepPhase::kProjections);
  }
  profile.EndStep(/*is_decode=*/true, 3);
  const auto all = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - begin);
  const StepTimes times = profile.decode();
  EXPECT_EQ(times.steps, 1u);
  EXPECT_EQ(times.tokens, 3u);
  EXPECT_GE(Of(times, StepPhase::kProjections), 300'000u);
  EXPECT_GE(Of(times, StepPhase::kAttention), 500'000u);
  EXPECT_LE(std::accumulate(times.ns.begin(), times.ns.end(), std::uint64_t{0}),
            static_cast<std::uint64_t>(all.count()));
}

TEST(StepProfileTest, DecodeAndPromptStepsAreCountedApartAndSummed) {
  StepProfile profile;
  for (const bool is_decode : {true, false, false}) {
    profile.BeginStep();
    const StepProfile::Scope scope(&profile, StepPhase::kLogits);
    Spend(std::chrono::microseconds(10));
    profile.EndStep(is_decode, is_decode ? 1 : 100);
  }
  EXPECT_EQ(profile.decode().steps, 1u);
  EXPECT_EQ(profile.prompts().steps, 2u);
  EXPECT_EQ(profile.prompts().tokens, 200u);
  EXPECT_GE(Of(profile.prompts(), StepPhase::kLogits), 20'000u);
}

TEST(StepProfileTest, TimeBeforeAStepIsNotCounted) {
  StepProfile profile;
  {
    const StepProfile::Scope replay(&profile, StepPhase::kAttention);
    Spend(std::chrono::microseconds(100));
  }
  profile.BeginStep();
  profile.EndStep(true, 1);
  EXPECT_EQ(Of(profile.decode(), StepPhase::kAttention), 0u);
}

TEST(StepProfileTest, AScopeWithoutAProfileLeavesOtherProfilesUnchanged) {
  StepProfile profile;
  profile.BeginStep();
  {
    const StepProfile::Scope outer(&profile, StepPhase::kProjections);
    {
      const StepProfile::Scope none(nullptr, StepPhase::kAttention);
      EXPECT_EQ(profile.current(), StepPhase::kProjections);
      Spend(std::chrono::microseconds(100));
    }
    EXPECT_EQ(profile.current(), StepPhase::kProjections);
  }
  profile.EndStep(/*is_decode=*/true, 1);
  EXPECT_EQ(Of(profile.decode(), StepPhase::kAttention), 0u);
  EXPECT_GE(Of(profile.decode(), StepPhase::kProjections), 100'000u);
}

TEST(StepPartTest, EachPhaseHasItsOwnName) {
  for (std::size_t a = 0; a < kStepPhases; ++a) {
    EXPECT_NE(StepPhaseName(static_cast<StepPhase>(a)), "unknown");
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NE(StepPhaseName(static_cast<StepPhase>(a)), StepPhaseName(static_cast<StepPhase>(b)));
    }
  }
  EXPECT_EQ(StepPhaseName(static_cast<StepPhase>(kStepPhases)), "unknown");
}

}  // namespace
}  // namespace kvd
