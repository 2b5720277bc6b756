// FindNeighbour finds the sequence with the longest common prefix among the sequences from which
// the prompt may take cells.
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

class PrefixNeighbourTest : public testing::Test {
 protected:
  // Makes a sequence of the tokens first, first + 1, ...
  SequenceHandle Make(const SequenceOwner& owner, TokenId first, std::size_t count) {
    const SequenceHandle handle = *memory_->sequences().Create(owner);
    EXPECT_TRUE(AppendTokens(*memory_, handle, first, count));
    return handle;
  }
  static std::vector<TokenId> Prompt(TokenId first, std::size_t count, TokenId last) {
    std::vector<TokenId> tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(first + static_cast<TokenId>(i));
    tokens.push_back(last);
    return tokens;
  }

  std::unique_ptr<Memory> memory_ = MakeMemory(SmallOptions(1024));
};

TEST_F(PrefixNeighbourTest, TheLongestCommonPrefixAndTheNextTokenAreFound) {
  Make(kOwner, 1, 20);
  const SequenceHandle longest = Make(kOwner, 1, 40);
  const PrefixNeighbour found = memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 30, 900));
  EXPECT_EQ(found.sequence, longest);
  EXPECT_EQ(found.common, 30u);
  EXPECT_EQ(found.next, 31);
}

TEST_F(PrefixNeighbourTest, ShortPrefixesAndCompletePromptsAreFound) {
  const SequenceHandle only = Make(kOwner, 1, 40);
  const PrefixNeighbour few = memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 2, 900));
  EXPECT_EQ(few.sequence, only);
  EXPECT_EQ(few.common, 2u);
  EXPECT_EQ(few.next, 3);
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 9, 10)).common, 10u);
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 39, 40)).next, std::nullopt)
      << "the sequence ends there";
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, Prompt(500, 9, 1)).sequence,
            SequenceHandle::kNone);
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, {}).sequence, SequenceHandle::kNone);
}

TEST_F(PrefixNeighbourTest, OfEquallyLongMatchesOneThatContinuesIsReturned) {
  const SequenceHandle ends = Make(kOwner, 1, 30);
  const SequenceHandle goes_on = Make(kOwner, 1, 31);
  const PrefixNeighbour found = memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 30, 900));
  EXPECT_NE(found.sequence, ends);
  EXPECT_EQ(found.sequence, goes_on);
  EXPECT_EQ(found.next, 31);
}

TEST_F(PrefixNeighbourTest, AMatchThatEndsAtAnEditIsReturned) {
  const SequenceHandle edited = Make(kOwner, 1, 40);
  ASSERT_TRUE(memory_->sequences().RemoveRange(edited, {Pos{20}, Pos{25}}));
  const PrefixNeighbour found = memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 30, 900));
  EXPECT_EQ(found.common, 20u);
  EXPECT_EQ(found.next, 26);
}

TEST_F(PrefixNeighbourTest, SequencesOfOtherUidsAndSaltsAreNotFound) {
  Make(kStranger, 1, 40);
  Make(kSalted, 1, 40);
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 30, 900)).sequence,
            SequenceHandle::kNone);
  Make(kOwner, 1, 5);
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kSalted, Prompt(1, 30, 900)).common, 30u)
      << "the salted owner's own sequence";
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 30, 900)).common, 5u);
}

TEST_F(PrefixNeighbourTest, OnlyPublicSnapshotsOfOtherUidsAreFound) {
  const SequenceHandle secret = Make(kStranger, 1, 40);
  const SequenceHandle shown = Make(kStranger, 100, 40);
  ASSERT_TRUE(memory_->snapshots().Publish(secret, kStranger, "secret", false, false));
  const SequenceHandle snapshot =
      *memory_->snapshots().Publish(shown, kStranger, "shown", true, false);
  EXPECT_EQ(memory_->prefixes().FindNeighbour(kOwner, Prompt(1, 30, 900)).sequence,
            SequenceHandle::kNone);
  const PrefixNeighbour found = memory_->prefixes().FindNeighbour(kOwner, Prompt(100, 30, 900));
  EXPECT_EQ(found.sequence, snapshot);
  EXPECT_EQ(found.next, 130);
}

}  // namespace
}  // namespace kvd
