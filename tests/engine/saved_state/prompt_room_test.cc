// Tests MakePromptRoom: which entries are removed when a prompt cache has no room for a new entry.
#include "engine/saved_state/prompt_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr OwnerId kMain{1000};
constexpr OwnerId kOther{1001};
constexpr OwnerId kThird{1002};

// A cache of at most 100 bytes and 10 entries. The part of the main owner is 90 bytes and 9
// entries; the part of each other owner is 40 bytes and 4 entries.
class PromptRoomTest : public testing::Test {
 protected:
  // Adds an entry. The last use of the added entry is later than that of all entries added before.
  void Add(std::optional<OwnerId> owner, const std::string& name, std::uint64_t bytes) {
    files_.push_back({.name = name, .owner = owner, .bytes = bytes, .used_ns = ++now_ns_});
  }
  // Makes room for an entry of `bytes` bytes and returns the names of the removed entries in the
  // order of their removal.
  std::vector<std::string> MakeRoom(OwnerId writer, std::uint64_t bytes) {
    std::vector<std::string> gone;
    std::vector<PromptFile> files = files_;
    std::ranges::reverse(files);
    made_ = MakePromptRoom(files, limits_, writer, bytes, [&](const std::string& name) {
      if (name.starts_with("stuck")) return false;
      gone.push_back(name);
      return true;
    });
    return gone;
  }
  void ExpectRefused(OwnerId writer, std::uint64_t bytes, const char* numbers) {
    EXPECT_THAT(MakeRoom(writer, bytes), IsEmpty());
    ASSERT_FALSE(made_);
    EXPECT_EQ(made_.error().code, Code::kNoSpace);
    EXPECT_THAT(made_.error().message, HasSubstr(numbers));
  }

  PromptLimits limits_{.all = {.bytes = 100, .entries = 10},
                       .part_of = [](OwnerId owner) -> PromptUse {
                         if (owner == kMain) return {.bytes = 90, .entries = 9};
                         return {.bytes = 40, .entries = 4};
                       },
                       .main_owner = kMain};
  std::vector<PromptFile> files_;
  std::int64_t now_ns_ = 0;
  Status made_;
};

TEST_F(PromptRoomTest, WithEnoughRoomNothingIsEvicted) {
  Add(kMain, "a", 60);
  Add(kOther, "b", 20);
  EXPECT_THAT(MakeRoom(kOther, 20), IsEmpty());
  EXPECT_TRUE(made_);
}

TEST_F(PromptRoomTest, AnOwnerAtItsShareEvictsItsOwnOldestEntry) {
  Add(kMain, "a", 10);
  Add(kOther, "b", 20);
  Add(kThird, "c", 10);
  Add(kOther, "d", 20);
  EXPECT_THAT(MakeRoom(kOther, 10), ElementsAre("b"));
  EXPECT_THAT(MakeRoom(kOther, 40), ElementsAre("b", "d"));
  EXPECT_TRUE(made_);
}

TEST_F(PromptRoomTest, TheShareLimitsTheNumberOfEntries) {
  for (const char* const name : {"a", "b", "c", "d"}) Add(kOther, name, 1);
  EXPECT_THAT(MakeRoom(kOther, 1), ElementsAre("a"));
  for (const char* const name : {"e", "f", "g", "h", "i"}) Add(kMain, name, 1);
  EXPECT_THAT(MakeRoom(kMain, 1), IsEmpty());
  Add(kMain, "j", 1);
  EXPECT_THAT(MakeRoom(kMain, 1), ElementsAre("e"))
      << "the cache has 10 entries, and kMain holds most of them";
  EXPECT_THAT(MakeRoom(kThird, 1), ElementsAre("a")) << "entries of the main owner stay";
}

TEST_F(PromptRoomTest, WritesOfOthersEvictNoEntryOfTheMainOwner) {
  Add(kMain, "a", 60);
  Add(kOther, "b", 20);
  Add(kThird, "c", 15);
  EXPECT_THAT(MakeRoom(kThird, 20), ElementsAre("b"));
  EXPECT_TRUE(made_);
  EXPECT_THAT(MakeRoom(kThird, 40), ElementsAre("c", "b"));
  EXPECT_TRUE(made_);
}

TEST_F(PromptRoomTest, AWriteIsRefusedIfItWouldEvictTheMainOwner) {
  Add(kMain, "a", 80);
  Add(kOther, "b", 15);
  ExpectRefused(kOther, 30, "an entry of 30 bytes, the prompt cache holds 80 of 100");
  ExpectRefused(kThird, 30, "an entry of 30 bytes, the prompt cache holds 80 of 100");
  EXPECT_THAT(MakeRoom(kThird, 20), ElementsAre("b"));
}

TEST_F(PromptRoomTest, AnEntryLargerThanTheShareOfItsOwnerIsRefused) {
  Add(kOther, "a", 40);
  ExpectRefused(kOther, 41, "an entry of 41 bytes, its owner may have 40");
  ExpectRefused(kMain, 91, "an entry of 91 bytes, its owner may have 90");
  limits_.part_of = {};
  ExpectRefused(kOther, 101, "an entry of 101 bytes, its owner may have 100");
}

TEST_F(PromptRoomTest, EntriesBeyondAShareAreEvictedByEveryWrite) {
  Add(kMain, "a", 50);
  Add(kMain, "b", 50);
  EXPECT_THAT(MakeRoom(kOther, 10), ElementsAre("a"));
  EXPECT_TRUE(made_);
  files_.clear();
  for (const char* const name : {"c", "d", "e", "f", "g"}) Add(kOther, name, 1);
  EXPECT_THAT(MakeRoom(kMain, 10), ElementsAre("c"));
}

TEST_F(PromptRoomTest, TheMainOwnerEvictsFromTheOwnerThatHoldsMost) {
  Add(kMain, "a", 30);
  Add(kThird, "b", 35);
  Add(kOther, "c", 20);
  Add(kOther, "d", 15);
  EXPECT_THAT(MakeRoom(kMain, 20), ElementsAre("c"));
  EXPECT_THAT(MakeRoom(kMain, 21), ElementsAre("c", "b"));
  files_[0].bytes = 40;
  EXPECT_THAT(MakeRoom(kMain, 10), ElementsAre("a")) << "the main owner itself holds most";
}

TEST_F(PromptRoomTest, EntriesOfAnUnknownOwnerCountForTheMainOwner) {
  Add(std::nullopt, "a", 30);
  Add(kMain, "b", 60);
  EXPECT_THAT(MakeRoom(kMain, 10), ElementsAre("a"));
  EXPECT_THAT(MakeRoom(kOther, 10), IsEmpty());
  ExpectRefused(kOther, 11, "holds 90 of 100");
}

TEST_F(PromptRoomTest, WithoutSharesTheOldestEntriesAreEvicted) {
  limits_ = {.all = {.bytes = 100, .entries = 10}};
  Add(limits_.main_owner, "a", 50);
  Add(limits_.main_owner, "b", 50);
  EXPECT_THAT(MakeRoom(limits_.main_owner, 60), ElementsAre("a", "b"));
}

TEST_F(PromptRoomTest, AnEntryThatCannotBeRemovedStillCounts) {
  Add(kOther, "stuck1", 20);
  Add(kOther, "a", 10);
  EXPECT_THAT(MakeRoom(kOther, 15), ElementsAre("a"));
  EXPECT_TRUE(made_);
  Add(kMain, "stuck2", 80);
  EXPECT_THAT(MakeRoom(kMain, 10), ElementsAre("a"));
  ASSERT_FALSE(made_);
  EXPECT_EQ(made_.error().code, Code::kNoSpace);
}

}  // namespace
}  // namespace kvd
