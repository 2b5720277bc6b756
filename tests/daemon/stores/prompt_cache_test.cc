// Prompts that take a prefix from disk: when entries are written, which requests wait for a file,
// and that every failure with a file only causes its prompt to be computed.
#include "daemon/stores/prompt_cache.h"

#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "tests/daemon/support/prompt_fixture.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::Join;
using test::Prompt;
using test::ReceivedCompletion;
using test::TestSession;
using test::Tokens;
using wire::Verb;

// Calls that the cache has posted to its threads. The test runs the posted calls explicitly.
struct Posted {
  std::deque<std::function<void()>> loads;
  std::deque<std::function<void()>> spills;
  static void RunAll(std::deque<std::function<void()>>* calls) {
    while (!calls->empty()) {
      const auto call = std::move(calls->front());
      calls->pop_front();
      call();
    }
  }
};

class PromptCacheTest : public test::PromptTest {
 protected:
  explicit PromptCacheTest(const test::FakeEngineOptions& options = {.cells = 4096})
      : PromptTest(options, [](Engine& engine) { return Open(engine); }) {
    // The cache is told that computing is so slow that it always expects reading from disk to be
    // faster.
    cache_->NoteComputed(16, std::chrono::hours(1'000'000));
  }
  ~PromptCacheTest() override {
    // The next test uses another folder and does not continue the cache of this test.
    folder_.reset();
    posted_.reset();
  }

  static std::unique_ptr<PromptCache> Open(Engine& engine) {
    if (!folder_) folder_.emplace();
    if (!posted_) posted_.emplace();
    auto cache = PromptCache::Open(
        engine, {.path = folder_->path(), .bytes_max = 1u << 24, .tokens_min = 32},
        {.load = [](std::function<void()> call) { posted_->loads.push_back(std::move(call)); },
         .spill = [](std::function<void()> call) { posted_->spills.push_back(std::move(call)); }});
    EXPECT_TRUE(cache) << cache.error().message;
    return std::move(*cache);
  }
  // Computes the prompt, retains its sequence, writes it to disk and drops it from the pool.
  void LeaveOnDisk(const Tokens& prompt) {
    const SequenceHandle sequence = Create(client_);
    Start(client_, sequence, prompt, wire::LogitsWanted::kNone, wire::kFlagNoPrefix);
    (void)Finish(client_);
    EXPECT_TRUE(Call(client_, Make(Verb::kRetain, sequence)).As<wire::RetainReply>().stays);
    Posted::RunAll(&posted_->spills);
    (void)Call(client_, Make(Verb::kDropRetained));
  }
  // Computes the prompt like Compute, and runs the reads from disk that the prompt waits for.
  PrefixReuse ComputeFromDisk(TestSession& client, const Tokens& prompt) {
    (void)Start(client, prompt);
    RunDry();
    while (!posted_->loads.empty()) {
      Posted::RunAll(&posted_->loads);
      RunDry();
    }
    return Finish(client);
  }
  std::vector<std::filesystem::path> Entries() const {
    std::vector<std::filesystem::path> entries;
    for (const auto& file : std::filesystem::directory_iterator(folder_->path())) {
      if (PromptDirectory::ParseName(file.path().filename().string()))
        entries.push_back(file.path());
    }
    return entries;
  }

  // folder_ and posted_ are static, because they must exist before the base class makes the engine
  // and the cache.
  inline static std::optional<test::TemporaryFolder> folder_;
  inline static std::optional<Posted> posted_;
};

TEST_F(PromptCacheTest, AnEvictedPromptIsReadFromDisk) {
  LeaveOnDisk(Prompt(300));
  EXPECT_EQ(cache_->Describe().spills, 1u);
  const std::size_t computed = Computed();
  EXPECT_EQ(ComputeFromDisk(sibling_, Prompt(300)),
            (PrefixReuse{299, PrefixOrigin::kDisk, PrefixLimit::kComplete}));
  EXPECT_EQ(Computed(), computed + 1);
  EXPECT_EQ(cache_->Describe().loads, 1u);
  EXPECT_EQ(cache_->Describe().loaded_tokens, 299u);
  EXPECT_EQ(engine_.memory().prefixes().counters().tokens_reused[static_cast<std::size_t>(
                PrefixOrigin::kDisk)],
            299u);
  EXPECT_EQ(Compute(sibling_, Prompt(300)).tokens, 299u) << "in the pool";
  EXPECT_EQ(cache_->Describe().loads, 1u);
}

TEST_F(PromptCacheTest, APromptReusesTheCommonPartOfAnEntry) {
  LeaveOnDisk(Prompt(300));
  const Tokens other = Join(Prompt(120), {4, 4, 4, 4});
  const SequenceHandle sequence = Start(sibling_, other);
  RunDry();
  Posted::RunAll(&posted_->loads);
  EXPECT_EQ(Finish(sibling_), (PrefixReuse{120, PrefixOrigin::kDisk, PrefixLimit::kNone}));
  ExpectHolds(sequence, other);
  EXPECT_EQ(cache_->Describe().loaded_tokens, 120u);
}

TEST_F(PromptCacheTest, AnEntryIsReadIfItIsLongerThanThePrefixInThePool) {
  LeaveOnDisk(Prompt(300));
  const SequenceHandle little = Create(client_);
  Start(client_, little, Prompt(40), wire::LogitsWanted::kNone, wire::kFlagNoPrefix);
  (void)Finish(client_);
  EXPECT_EQ(ComputeFromDisk(sibling_, Prompt(300)).tokens, 299u);
  // No entry is read from disk if the pool holds a prefix of the same length.
  EXPECT_EQ(Compute(sibling_, Join(Prompt(100), {4, 4})).tokens, 100u);
  EXPECT_EQ(cache_->Describe().loads, 1u);
}

TEST_F(PromptCacheTest, OneReadServesAllWaitingPromptsAndOthersContinue) {
  LeaveOnDisk(Prompt(300));
  const std::size_t computed = Computed();
  const SequenceHandle a = Start(client_, Prompt(300));
  const SequenceHandle b = Start(sibling_, Prompt(300));
  const SequenceHandle c = Start(sibling_, Prompt(200, 9));
  RunDry();
  EXPECT_EQ(Cells(a), 0u);
  EXPECT_EQ(Cells(b), 0u);
  EXPECT_EQ(Cells(c), 200u);
  EXPECT_EQ(posted_->loads.size(), 1u);
  Posted::RunAll(&posted_->loads);
  RunDry();
  ExpectHolds(a, Prompt(300));
  ExpectHolds(b, Prompt(300));
  EXPECT_EQ(Computed(), computed + 200 + 2);
  EXPECT_EQ(cache_->Describe().loads, 1u);
}

TEST_F(PromptCacheTest, APromptThatNeedsMoreOfAnEntryReadsItAgain) {
  LeaveOnDisk(Prompt(300));
  const Tokens little = Join(Prompt(60), {4, 4});
  const SequenceHandle a = Start(client_, little);
  const SequenceHandle b = Start(sibling_, Prompt(300));
  RunDry();
  ASSERT_EQ(posted_->loads.size(), 1u);
  Posted::RunAll(&posted_->loads);
  RunDry();
  ExpectHolds(a, little);
  ASSERT_EQ(posted_->loads.size(), 1u);
  Posted::RunAll(&posted_->loads);
  EXPECT_EQ(Finish(sibling_).tokens, 299u);
  ExpectHolds(b, Prompt(300));
}

TEST_F(PromptCacheTest, OtherSaltsAndUidsReuseNoEntry) {
  LeaveOnDisk(Prompt(300));
  EXPECT_EQ(ComputeFromDisk(stranger_, Prompt(300)).tokens, 0u);
  wire::Submission create = Make(wire::CreateArgs{.cache_salt = 77});
  const SequenceHandle salted = Call(client_, create).sequence();
  Start(client_, salted, Prompt(300));
  EXPECT_EQ(Finish(client_).tokens, 0u);
  EXPECT_TRUE(posted_->loads.empty());
}

TEST_F(PromptCacheTest, ADamagedEntryIsDroppedAndThePromptComputed) {
  LeaveOnDisk(Prompt(300));
  const std::filesystem::path entry = Entries().front();
  {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('?');
  }
  const Tokens whole = Join(Prompt(300), {7, 8});
  const SequenceHandle sequence = Start(sibling_, whole);
  RunDry();
  Posted::RunAll(&posted_->loads);
  EXPECT_EQ(Finish(sibling_).tokens, 0u);
  ExpectHolds(sequence, whole);
  EXPECT_EQ(cache_->Describe().entries_dropped, 1u);
  EXPECT_EQ(cache_->Describe().loads_failed, 1u);
  EXPECT_EQ(cache_->Describe().entries, 0u);
  EXPECT_TRUE(Entries().empty());
}

TEST_F(PromptCacheTest, ACancelledPromptLeavesAPrefixBehind) {
  LeaveOnDisk(Prompt(300));
  (void)Start(client_, Prompt(300));
  RunDry();
  client_.session()->Close();
  service_.SessionClosed(client_.session()->id());
  RunDry();
  Posted::RunAll(&posted_->loads);
  EXPECT_EQ(Compute(sibling_, Prompt(300)),
            (PrefixReuse{299, PrefixOrigin::kRetained, PrefixLimit::kComplete}));
}

TEST_F(PromptCacheTest, APromptThatComputesFasterIsNotRead) {
  LeaveOnDisk(Prompt(300));
  EXPECT_EQ(ComputeFromDisk(sibling_, Prompt(300)).tokens, 299u);
  Call(sibling_, Make(Verb::kKeep, Create(sibling_)));
  // The cache is told that computing is so fast that it always expects reading from disk to be
  // slower.
  for (int i = 0; i < 100; ++i) cache_->NoteComputed(1'000'000'000, std::chrono::nanoseconds(1));
  (void)Call(client_, Make(Verb::kDropRetained));
  EXPECT_EQ(Compute(client_, Prompt(300)),
            (PrefixReuse{0, PrefixOrigin::kNone, PrefixLimit::kOnDisk}));
  EXPECT_TRUE(posted_->loads.empty());
  const wire::CacheReply described = cache_->Describe();
  EXPECT_EQ(described.loads_not_worth_it, 1u);
  EXPECT_GT(described.load_bytes_per_s, 0u);
  EXPECT_GT(described.computed_tokens_per_s, 1'000'000u);
}

TEST_F(PromptCacheTest, WithoutRoomForTheEntryThePromptContinuesWithoutIt) {
  LeaveOnDisk(Prompt(300));
  const SequenceHandle full = Start(client_, Prompt(3850, 30));
  (void)Finish(client_);
  (void)Start(sibling_, Prompt(300));
  RunDry();
  Posted::RunAll(&posted_->loads);
  RunDry();
  EXPECT_EQ(cache_->Describe().loads_failed, 1u);
  EXPECT_EQ(cache_->Describe().entries, 1u) << "no damage";
  EXPECT_EQ(Call(client_, Make(Verb::kDrop, full)).code(), Code::kOk);
}

TEST_F(PromptCacheTest, SequencesEvictedBeforeTheyAreWrittenAreCounted) {
  const SequenceHandle sequence = Start(client_, Prompt(100));
  (void)Finish(client_);
  EXPECT_TRUE(Call(client_, Make(Verb::kRetain, sequence)).As<wire::RetainReply>().stays);
  EXPECT_EQ(cache_->Describe().spills_waiting, 1u);
  (void)Call(client_, Make(Verb::kDropRetained));
  Posted::RunAll(&posted_->spills);
  EXPECT_EQ(cache_->Describe().spills_missed, 1u);
  EXPECT_TRUE(Entries().empty());
}

TEST_F(PromptCacheTest, ShortPinnedAndContinuedSequencesAreNotWritten) {
  const SequenceHandle brief = Start(client_, Prompt(31));
  RunDry();
  const SequenceHandle pinned = Start(client_, Prompt(100));
  RunDry();
  const SequenceHandle taken = Start(client_, Prompt(100, 9));
  (void)RunDry();
  (void)client_.All();
  for (const SequenceHandle handle : {brief, taken}) {
    EXPECT_TRUE(Call(client_, Make(Verb::kRetain, handle)).As<wire::RetainReply>().stays);
  }
  wire::Submission pin = Make(wire::PinArgs{.sequence = pinned, .is_pinned = true});
  (void)Call(client_, pin);
  EXPECT_TRUE(Call(client_, Make(Verb::kRetain, pinned)).As<wire::RetainReply>().stays);
  // The client that continues the sequence becomes its owner.
  ReceivedCompletion more = CallTokens(client_, Make(Verb::kClear, taken), {});
  EXPECT_EQ(more.code(), Code::kOk);
  Posted::RunAll(&posted_->spills);
  EXPECT_TRUE(Entries().empty());
  EXPECT_EQ(cache_->Describe().spills_missed, 0u);
  pin = Make(wire::PinArgs{.sequence = pinned, .is_pinned = false});
  (void)Call(client_, pin);
  Posted::RunAll(&posted_->spills);
  EXPECT_EQ(Entries().size(), 1u) << "it may be evicted from now on";
}

TEST_F(PromptCacheTest, AStoppedCacheStartsNoReadOrWrite) {
  LeaveOnDisk(Prompt(300));
  (void)Start(client_, Prompt(300));
  RunDry();
  cache_->Stop();
  Posted::RunAll(&posted_->loads);
  EXPECT_EQ(Finish(client_).tokens, 0u);
  EXPECT_EQ(cache_->Describe().entries, 1u);
  EXPECT_EQ(Compute(sibling_, Prompt(300)).origin, PrefixOrigin::kLive);
}

class RecurrentPromptCacheTest : public PromptCacheTest {
 protected:
  RecurrentPromptCacheTest() : PromptCacheTest({.cells = 4096, .has_state = true}) {}
};

TEST_F(RecurrentPromptCacheTest, PromptsAreReusedUpToTheLastCheckpoint) {
  LeaveOnDisk(Prompt(300));
  EXPECT_EQ(ComputeFromDisk(sibling_, Prompt(300)),
            (PrefixReuse{299, PrefixOrigin::kDisk, PrefixLimit::kComplete}));
  EXPECT_EQ(ComputeFromDisk(client_, Join(Prompt(300), {7, 8})).tokens, 300u);
}

}  // namespace
}  // namespace kvd
