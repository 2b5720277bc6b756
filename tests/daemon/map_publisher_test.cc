#include "daemon/map_publisher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "daemon/process/io_loop.h"
#include "daemon/sessions/owners.h"
#include "shm/map_reader.h"
#include "tests/daemon/support/fake_engine.h"

namespace kvd::map_publisher_test {
namespace {

constexpr std::uint32_t kOwn = 1000;
constexpr std::uint32_t kOther = 1001;

class MapPublisherTest : public ::testing::Test {
 protected:
  Memory& memory() { return engine_.memory(); }
  MapReader Read(std::uint32_t uid) {
    auto descriptor = publisher_.Watch(OwnerId{uid});
    auto reader = MapReader::Open(UniqueFd(::dup(*descriptor)));
    return std::move(*reader);
  }
  SequenceHandle MakeSequence(std::uint32_t uid, std::size_t cells) {
    const SequenceHandle handle = *memory().sequences().Create({OwnerId{uid}, SessionId{uid}, 0});
    const std::vector<TokenId> tokens(cells, 3);
    StepPlan plan;
    const AppendRequest request{handle, Pos{0}, tokens};
    EXPECT_TRUE(memory().steps().Reserve({&request, 1}, plan));
    EXPECT_TRUE(memory().steps().Commit(plan, 0));
    memory().steps().EndStep(plan);
    return handle;
  }
  static std::vector<std::uint64_t> Handles(const MapReader& map) {
    std::vector<std::uint64_t> handles;
    for (const auto& entry : map.sequences()) {
      if (entry.handle != 0) handles.push_back(entry.handle);
    }
    return handles;
  }
  static std::vector<std::uint64_t> Numbers(const std::vector<SequenceHandle>& handles) {
    std::vector<std::uint64_t> numbers;
    for (const SequenceHandle handle : handles) {
      numbers.push_back(static_cast<std::uint64_t>(handle));
    }
    return numbers;
  }

  test::FakeEngine engine_;
  AsioLoop loop_;
  MapCounters counters_;
  MapPublisher publisher_{loop_,
                          engine_.memory(),
                          {.counters = [this] { return counters_; },
                           .sessions =
                               [](OwnerId owner, std::vector<layout::MapSession>* sessions) {
                                 layout::MapSession entry{};
                                 entry.session = static_cast<std::uint64_t>(owner);
                                 entry.uid = UidOf(owner, kOwn);
                                 sessions->push_back(entry);
                               },
                           .uid_of = [](OwnerId owner) { return UidOf(owner, kOwn); }}};
};

TEST_F(MapPublisherTest, AUidSeesItsOwnAndPublicSequencesAndTheTotals) {
  const SequenceHandle mine = MakeSequence(kOwn, 40);
  const SequenceHandle theirs = MakeSequence(kOther, 10);
  const SequenceHandle shown =
      *memory().snapshots().Publish(mine, {OwnerId{kOwn}, SessionId{1}, 0}, "all", true, false);
  const SequenceHandle hidden =
      *memory().snapshots().Publish(mine, {OwnerId{kOwn}, SessionId{1}, 0}, "own", false, false);
  MapReader own = Read(kOwn);
  MapReader other = Read(kOther);
  publisher_.PublishNow();
  EXPECT_EQ(own.Refresh(), MapState::kLive);
  EXPECT_EQ(other.Refresh(), MapState::kLive);
  EXPECT_EQ(Handles(own), Numbers({mine, shown, hidden}));
  EXPECT_EQ(Handles(other), Numbers({theirs, shown}));
  for (const MapReader* map : {&own, &other}) {
    EXPECT_EQ(map->totals().live_sequences, 4u);
    EXPECT_EQ(map->totals().live_cells, 50u);
    EXPECT_EQ(map->sessions()[0].session, map->viewer_uid());
    EXPECT_EQ(map->sessions()[1].session, 0u);
  }
  EXPECT_EQ(own.sequences()[IndexOf(mine)].shared_cells, 40u);
  ASSERT_TRUE(memory().snapshots().Unpublish("all", OwnerId{kOwn}));
  publisher_.PublishNow();
  EXPECT_TRUE(other.Refresh());
  EXPECT_EQ(Handles(other), Numbers({theirs}));
  std::uint32_t cells_shown = 0;
  for (const layout::MapBlock& block : other.blocks()) cells_shown += block.used_cells;
  EXPECT_EQ(cells_shown, 10u);
}

// Returns the blocks' entries as words, so that a comparison covers every byte of an entry.
std::vector<std::uint64_t> BlockWords(const MapReader& map) {
  std::vector<std::uint64_t> words(map.blocks().size());
  static_assert(sizeof(layout::MapBlock) == sizeof(std::uint64_t));
  std::memcpy(words.data(), map.blocks().data(), words.size() * sizeof(std::uint64_t));
  return words;
}

TEST_F(MapPublisherTest, ChangesOfAnotherUidChangeNoBlockOfTheViewer) {
  const SequenceHandle mine = MakeSequence(kOwn, 40);
  const SequenceHandle shown =
      *memory().snapshots().Publish(mine, {OwnerId{kOwn}, SessionId{1}, 0}, "all", true, false);
  MapReader map = Read(kOwn);
  publisher_.PublishNow();
  ASSERT_EQ(map.Refresh(), MapState::kLive);
  const std::vector<std::uint64_t> before = BlockWords(map);
  const auto expect_unchanged = [&](const char* what) {
    publisher_.PublishNow();
    EXPECT_EQ(map.Refresh(), MapState::kLive);
    EXPECT_EQ(BlockWords(map), before) << what;
  };

  const SequenceHandle theirs = MakeSequence(kOther, 70);
  expect_unchanged("a sequence of its own");
  const SequenceOwner other{OwnerId{kOther}, SessionId{kOther}, 0};
  SequenceHandle fork{};
  ASSERT_TRUE(memory().sequences().Fork(theirs, other, {&fork, 1}));
  expect_unchanged("a fork of that");
  SequenceHandle taken{};
  ASSERT_TRUE(memory().sequences().Fork(shown, other, {&taken, 1}));
  expect_unchanged("a fork of a public snapshot");
  // The 9 tokens are appended in the free part of the block that holds the snapshot's last cells.
  const std::vector<TokenId> tokens(9, 4);
  StepPlan plan;
  const AppendRequest request{taken, Pos{40}, tokens};
  ASSERT_TRUE(memory().steps().Reserve({&request, 1}, plan));
  ASSERT_TRUE(memory().steps().Commit(plan, 0));
  memory().steps().EndStep(plan);
  expect_unchanged("tokens behind it");
  ASSERT_TRUE(memory().sequences().RemoveRange(theirs, {Pos{3}, Pos{9}}));
  ASSERT_TRUE(memory().sequences().Drop(fork));
  expect_unchanged("an edit and a drop");
}

TEST_F(MapPublisherTest, OnlyCellsSharedByVisibleSequencesAreShownAsShared) {
  const SequenceHandle mine = MakeSequence(kOwn, 40);
  SequenceHandle fork{};
  ASSERT_TRUE(memory().sequences().Fork(mine, {OwnerId{kOwn}, SessionId{kOwn}, 0}, {&fork, 1}, 34));
  MapReader map = Read(kOwn);
  publisher_.PublishNow();
  ASSERT_EQ(map.Refresh(), MapState::kLive);
  std::uint32_t used = 0;
  std::uint32_t shared = 0;
  for (const layout::MapBlock& block : map.blocks()) {
    used += block.used_cells;
    shared += block.shared_cells;
  }
  EXPECT_EQ(used, 40u);
  EXPECT_EQ(shared, 34u);
}

TEST_F(MapPublisherTest, AnUnchangedMapIsNotWritten) {
  MakeSequence(kOwn, 5);
  MapReader map = Read(kOwn);
  publisher_.PublishNow();
  EXPECT_TRUE(map.Refresh());
  const std::uint64_t pass = map.totals().pass;
  EXPECT_NE(pass, 0u);
  publisher_.PublishNow();
  EXPECT_TRUE(map.Refresh());
  EXPECT_EQ(map.totals().pass, pass);
  counters_.tokens_computed = 9;
  publisher_.PublishNow();
  EXPECT_TRUE(map.Refresh());
  EXPECT_EQ(map.totals().pass, pass + 1);
  EXPECT_EQ(map.totals().tokens_computed, 9u);
}

TEST_F(MapPublisherTest, AViewerThatJoinsDuringAPassSeesTheNextPassWhole) {
  const SequenceHandle mine = MakeSequence(kOwn, 5);
  MapReader first = Read(kOwn);
  publisher_.PublishNow();
  MapReader second = Read(kOther);
  publisher_.PublishNow();
  EXPECT_TRUE(second.Refresh());
  EXPECT_TRUE(second.has_content());
  EXPECT_TRUE(first.Refresh());
  EXPECT_EQ(Handles(first), Numbers({mine}));
}

TEST_F(MapPublisherTest, AMapStopsWhenItsLastViewerLeaves) {
  MapReader map = Read(kOwn);
  ASSERT_TRUE(publisher_.Watch(OwnerId{kOwn}));
  publisher_.Unwatch(OwnerId{kOwn});
  EXPECT_EQ(map.Refresh(), MapState::kLive);
  publisher_.Unwatch(OwnerId{kOwn});
  EXPECT_EQ(map.Refresh(), MapState::kStopped);
}

TEST_F(MapPublisherTest, TheTimerPublishesByItself) {
  MapReader map = Read(kOwn);
  std::unique_ptr<IoLoop::Handle> look;
  std::function<void()> again = [&] {
    EXPECT_TRUE(map.Refresh());
    if (map.has_content()) return loop_.Stop();
    look = loop_.After(std::chrono::milliseconds(1), again);
  };
  look = loop_.After(std::chrono::milliseconds(1), again);
  loop_.Run();
  EXPECT_TRUE(map.has_content());
}

}  // namespace
}  // namespace kvd::map_publisher_test
