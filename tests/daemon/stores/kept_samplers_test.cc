#include "daemon/stores/kept_samplers.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/daemon/support/fake_engine.h"

namespace kvd {
namespace {

constexpr SequenceOwner kOwner{OwnerId{1000}, SessionId{1}, 0};

std::shared_ptr<const SamplerOptions> Seeded(std::uint64_t seed) {
  SamplerOptions params;
  params.seed = seed;
  return std::make_shared<const SamplerOptions>(std::move(params));
}

SamplerProgress Drawn(std::uint64_t draw_count, float mu = 0) {
  SamplerProgress progress{.draw_count = draw_count, .adaptation = {}, .adaptation_before = {}};
  progress.adaptation.mirostat_mu = mu;
  return progress;
}

TEST(KeptSamplersTest, ForksShareTheSamplerStateOfTheirSourceUntilOneDraws) {
  test::FakeEngine engine;
  KeptSamplers samplers(engine.memory(), engine.config().vocab_size);
  const SequenceHandle source = *engine.memory().sequences().Create(kOwner);
  std::vector<SequenceHandle> forks(2);
  ASSERT_TRUE(engine.memory().sequences().Fork(source, kOwner, forks));
  samplers.Inherit(source, forks);
  EXPECT_FALSE(samplers.Find(forks[0])) << "there was none";
  samplers.Put(source, Seeded(7), Drawn(3, 4.5f));
  samplers.Inherit(source, forks);
  samplers.Put(forks[0], Seeded(7), Drawn(4, 5.5f));
  EXPECT_EQ(samplers.Find(source)->progress.draw_count, 3u);
  EXPECT_EQ(samplers.Find(forks[0])->progress.draw_count, 4u);
  EXPECT_EQ(samplers.Find(forks[1])->progress.draw_count, 3u);
  EXPECT_EQ(samplers.Find(forks[0])->progress.adaptation.mirostat_mu, 5.5f);
  EXPECT_EQ(samplers.Find(forks[1])->progress.adaptation.mirostat_mu, 4.5f);
  EXPECT_EQ(samplers.Find(forks[1])->options.seed, 7u);
}

TEST(KeptSamplersTest, TheNextDaemonFindsSamplerStatesWithoutBiases) {
  test::FakeEngine engine;
  Memory& memory = engine.memory();
  const SequenceHandle source = *memory.sequences().Create(kOwner);
  KeptSampler kept{
      .options = {.sampling = DefaultSamplingAt(1.5f), .seed = 7, .ignore_eos = true, .biases = {}},
      .progress = Drawn(3, 6.5f)};
  KeptSamplers first(memory, engine.config().vocab_size);
  EXPECT_EQ(first.Find(source).error().code, Code::kNotFound);
  ASSERT_TRUE(first.PutLoaded(source, kept));
  std::vector<SequenceHandle> forks(1);
  ASSERT_TRUE(memory.sequences().Fork(source, kOwner, forks));
  const SequenceOwner other{.id = OwnerId{1001}, .session = SessionId{2}, .namespace_salt = 0};
  std::vector<SequenceHandle> foreign(1);
  ASSERT_TRUE(memory.sequences().Fork(source, other, foreign));
  const KeptSamplers second(memory, engine.config().vocab_size);
  for (const SequenceHandle handle : {source, forks[0]}) {
    const auto found = second.Find(handle);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->progress.draw_count, 3u);
    EXPECT_EQ(EncodeSampler(*found), EncodeSampler(kept));
  }
  EXPECT_EQ(second.Find(foreign[0]).error().code, Code::kNotFound) << "another user's";
  kept.options.biases.push_back({.token = 3, .bias = 1.0f});
  ASSERT_TRUE(first.PutLoaded(source, kept));
  EXPECT_EQ(first.Find(source)->options.biases.size(), 1u);
  EXPECT_EQ(second.Find(source).error().code, Code::kUnsupported);
  kept.options.biases.clear();
  kept.options.breakers = {"--"};
  ASSERT_TRUE(first.PutLoaded(source, kept));
  EXPECT_EQ(first.Find(source)->options.breakers, kept.options.breakers);
  EXPECT_EQ(second.Find(source).error().code, Code::kUnsupported);
  // A sampler record in `meta` is validated like a record in a file.
  layout::SamplerRecord record = memory.sequences().Query(forks[0])->sampler;
  record.sampling.top_p = -1;
  ASSERT_TRUE(memory.sequences().SetSampler(forks[0], record));
  EXPECT_EQ(second.Find(forks[0]).error().code, Code::kCorrupt);
}

TEST(KeptSamplersTest, SamplerStatesOfDroppedSequencesAreRemoved) {
  test::FakeEngine engine;
  KeptSamplers samplers(engine.memory(), engine.config().vocab_size);
  const SequenceHandle stays = *engine.memory().sequences().Create(kOwner);
  samplers.Put(stays, Seeded(1), Drawn(1));
  for (int i = 0; i < 1000; ++i) {
    const SequenceHandle handle = *engine.memory().sequences().Create(kOwner);
    samplers.Put(handle, Seeded(2), Drawn(1));
    ASSERT_TRUE(engine.memory().sequences().Drop(handle));
  }
  EXPECT_LE(samplers.size(), 64u);
  EXPECT_TRUE(samplers.Find(stays));
}

}  // namespace
}  // namespace kvd
