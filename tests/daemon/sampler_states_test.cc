#include "daemon/sampler_states.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/daemon/support/fake_engine.h"

namespace kvd {
namespace {

constexpr SequenceOwner kOwner{1000, SessionId{1}, 0};

std::shared_ptr<const SamplingParams> Seeded(std::uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  return std::make_shared<const SamplingParams>(std::move(params));
}

TEST(SamplerStatesTest, ForksHaveTheSamplerOfTheirSourceUntilOneDrawsOn) {
  test::FakeEngine engine;
  SamplerStates samplers(engine.memory());
  const SequenceHandle source = *engine.memory().Create(kOwner);
  std::vector<SequenceHandle> forks(2);
  ASSERT_TRUE(engine.memory().Fork(source, kOwner, forks));
  samplers.Inherit(source, forks);
  EXPECT_FALSE(samplers.Find(forks[0])) << "there was none";
  samplers.Put(source, Seeded(7), 3);
  samplers.Inherit(source, forks);
  samplers.Put(forks[0], Seeded(7), 4);
  EXPECT_EQ(samplers.Find(source)->draw_count, 3u);
  EXPECT_EQ(samplers.Find(forks[0])->draw_count, 4u);
  EXPECT_EQ(samplers.Find(forks[1])->draw_count, 3u);
  EXPECT_EQ(samplers.Find(forks[1])->params.seed, 7u);
}

TEST(SamplerStatesTest, SequencesThatAreGoneAreForgotten) {
  test::FakeEngine engine;
  SamplerStates samplers(engine.memory());
  const SequenceHandle stays = *engine.memory().Create(kOwner);
  samplers.Put(stays, Seeded(1), 1);
  for (int i = 0; i < 1000; ++i) {
    const SequenceHandle handle = *engine.memory().Create(kOwner);
    samplers.Put(handle, Seeded(2), 1);
    ASSERT_TRUE(engine.memory().Drop(handle));
  }
  EXPECT_LE(samplers.size(), 64u);
  EXPECT_TRUE(samplers.Find(stays));
}

}  // namespace
}  // namespace kvd
