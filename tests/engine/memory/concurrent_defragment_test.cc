// A defragmentation visits the lists of all sequences in portions, and verbs may run between any
// two portions. The test checks that cells keep their content and that no cell or block is lost or
// leaked.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

class NoBytes final : public CellMover {
 public:
  void MoveCells(std::uint32_t, BlockId, std::uint32_t, BlockId, std::uint32_t,
                 std::uint32_t) override {}
};

// The sequences that one thread edits, each with its expected contents.
class Editor {
 public:
  Editor(Memory& memory, std::uint64_t seed) : memory_(memory), random_(seed) {}

  // Adds `count` sequences of 1 to 3 cells. REQUIRES: no other thread uses the memory, because an
  // append is a step and only one step may run at a time.
  void Fill(std::uint32_t count) {
    for (std::uint32_t made = 0; made < count; ++made) {
      const SequenceHandle handle = *memory_.sequences().Create(kOwner);
      ASSERT_TRUE(AppendTokens(memory_, handle, In(0, 1'000'000), 1 + made % 3));
      known_.push_back({handle, ContentsOf(memory_, handle)});
    }
  }
  void EditOne() {
    const auto at = static_cast<std::size_t>(In(0, static_cast<int>(known_.size()) - 1));
    Known& chosen = known_[at];
    switch (In(0, 3)) {
      case 0:
        if (!memory_.sequences().AddPositions(chosen.handle, {}, 3)) return;
        for (std::int32_t& position : chosen.contents.positions) position += 3;
        return;
      case 1: {
        SequenceHandle fork{};
        if (!memory_.sequences().Fork(chosen.handle, kOwner, {&fork, 1})) return;
        known_.push_back({fork, chosen.contents});
        return;
      }
      case 2: {
        const Pos last{chosen.contents.positions.empty() ? 0 : chosen.contents.positions.back()};
        if (chosen.contents.positions.empty()) return;
        if (!memory_.sequences().RemoveRange(chosen.handle, {last, kPosEnd})) return;
        chosen.contents.positions.pop_back();
        chosen.contents.tokens.pop_back();
        return;
      }
      default:
        if (known_.size() < 1'000) return;
        ASSERT_TRUE(memory_.sequences().Drop(chosen.handle));
        known_[at] = known_.back();
        known_.pop_back();
    }
  }
  void ExpectAll() {
    for (const Known& known : known_) ASSERT_EQ(ContentsOf(memory_, known.handle), known.contents);
  }

 private:
  struct Known {
    SequenceHandle handle{};
    Contents contents;
  };
  std::int32_t In(std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random_);
  }

  Memory& memory_;
  std::mt19937_64 random_;
  std::vector<Known> known_;
};

TEST(ConcurrentDefragmentTest, VerbsBetweenPortionsLoseNoCellAndLeakNone) {
  MemoryOptions options = SmallOptions(8'192 * 32);
  options.sequence_capacity = 16'000;
  const auto memory = MakeMemory(options);
  Editor one(*memory, 1);
  Editor two(*memory, 2);
  one.Fill(2'000);
  two.Fill(2'000);
  std::atomic<bool> ends = false;
  const auto edit = [&ends](Editor& editor) {
    while (!ends.load(std::memory_order_relaxed)) editor.EditOne();
  };
  std::thread first(edit, std::ref(one));
  std::thread second(edit, std::ref(two));
  NoBytes mover;
  std::uint64_t moved = 0;
  for (int slices = 0; slices < 60; ++slices) {
    const Result<DefragSlice> slice = memory->block_packer().Advance(256, mover);
    if (slice) moved += slice->cells_moved;
  }
  ends = true;
  first.join();
  second.join();
  EXPECT_GT(moved, 2'000u);
  one.ExpectAll();
  two.ExpectAll();
  const Result<DerivedTables> rebuilt = RebuildTables(memory->meta_bytes());
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  EXPECT_TRUE(*rebuilt == memory->derived());
  for (std::uint32_t block = 0; block < 8'192; ++block) {
    ASSERT_NE(memory->is_free_block(0, block), rebuilt->blocks[0].is_used(block)) << block;
  }
}

}  // namespace
}  // namespace kvd
