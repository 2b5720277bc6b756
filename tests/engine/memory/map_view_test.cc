#include <gtest/gtest.h>

#include <map>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

struct Seen {
  std::uint32_t cells = 0;
  std::uint32_t shared = 0;
};

class Collector final : public SequenceVisitor {
 public:
  void Visit(const SequenceInfo& info, std::uint32_t shared_cells, std::uint32_t,
             std::span<const layout::Extent> extents) override {
    seen[info.handle] = {info.cell_count, shared_cells};
    extent_count += extents.size();
  }
  std::map<SequenceHandle, Seen> seen;
  std::size_t extent_count = 0;
};

TEST(MapViewTest, VisitedSequencesHaveTheirSharedCells) {
  const auto memory = MakeMemory(SmallOptions(256));
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 40));
  SequenceHandle fork{};
  ASSERT_TRUE(memory->sequences().Fork(a, kOwner, {&fork, 1}, 34));
  Collector collector;
  EXPECT_EQ(memory->sequences().Visit(0, 12, 1000, collector), 12u);
  ASSERT_EQ(collector.seen.size(), 2u);
  EXPECT_EQ(collector.seen[a].cells, 40u);
  EXPECT_EQ(collector.seen[a].shared, 34u);
  EXPECT_EQ(collector.seen[fork].shared, 34u);
  EXPECT_EQ(collector.extent_count, 4u);
}

TEST(MapViewTest, AVisitEndsAtItsLimitAndCanBeResumed) {
  const auto memory = MakeMemory(SmallOptions(256));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(AppendTokens(*memory, *memory->sequences().Create(kOwner), 0, 40));
  }
  Collector collector;
  std::uint32_t next = 0;
  int visits = 0;
  while (next < 12) {
    const std::uint32_t from = next;
    next = memory->sequences().Visit(next, 12, 1, collector);
    ASSERT_GT(next, from);
    ++visits;
  }
  EXPECT_EQ(collector.seen.size(), 3u);
  EXPECT_GE(visits, 3);
}

TEST(MapViewTest, TheCommitNumberChangesOnlyWithCommits) {
  const auto memory = MakeMemory(SmallOptions(256));
  const std::uint64_t before = memory->commit_number();
  (void)memory->sequences().List();
  EXPECT_EQ(memory->commit_number(), before);
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  const std::uint64_t created = memory->commit_number();
  EXPECT_NE(created, before);
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 1));
  EXPECT_NE(memory->commit_number(), created);
}

}  // namespace
}  // namespace kvd
