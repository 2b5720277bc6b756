// Tests that every verb by which a sequence comes to count for another uid keeps that uid within
// its quota of the pool, and that the daemon's own uid can use the remaining pool. Needs root.
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/support/shares_fixture.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using test::Fill;
using test::kOtherUid;
using test::TokensOf;

// A verb after which a retained sequence, or a sequence that shares its cells, counts for its uid.
struct HoldingVerb {
  const char* name;
  Status (*hold)(const Client& client, SequenceHandle retained);
  bool is_in_place = true;  // the retained sequence itself becomes the held one
};

template <class T>
Status StatusOf(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

const std::vector<HoldingVerb> kHoldingVerbs = {
    {"Fork",
     [](const Client& client, SequenceHandle retained) {
       return StatusOf(client.Fork(retained, -1, 1));
     },
     false},
    {"Publish",
     [](const Client& client, SequenceHandle retained) {
       return StatusOf(
           client.Publish(retained, "of" + std::to_string(static_cast<std::uint64_t>(retained))));
     },
     false},
    {"CopyRange",
     [](const Client& client, SequenceHandle retained) -> Status {
       KVD_TRY(const SequenceHandle destination, client.Create());
       return StatusOf(client.CopyRange(retained, destination, {}));
     },
     false},
    {"Pin",
     [](const Client& client, SequenceHandle retained) {
       return StatusOf(client.Call(wire::PinArgs{retained, true}));
     }},
    {"RemoveRange",
     [](const Client& client, SequenceHandle retained) {
       return StatusOf(client.RemoveRange(retained, {Pos{950}, Pos{955}}));
     }},
    {"Add", [](const Client& client,
               SequenceHandle retained) { return client.Add(retained, {Pos{950}, kPosEnd}, 3); }},
    {"Divide", [](const Client& client,
                  SequenceHandle retained) { return StatusOf(client.Divide(retained, {}, 2)); }},
    {"Decode",
     [](const Client& client, SequenceHandle retained) {
       return test::Append(client, retained, TokensOf(9, 1));
     }},
    {"Generate",
     [](const Client& client, SequenceHandle retained) -> Status {
       const std::vector<TokenId> prompt = TokensOf(9, 1);
       GenerateOptions options;
       options.tokens = prompt;
       options.predict_max = 1;
       KVD_TRY(Generation generation, client.StartGenerate(retained, options));
       for (;;) {
         KVD_TRY(const auto piece, generation.Next());
         if (!piece) return {};
       }
     }},
};

class RetainedSharesTest : public test::SharesTest,
                           public testing::WithParamInterface<HoldingVerb> {};

TEST_P(RetainedSharesTest, ContinuedRetainedSequencesStayWithinThePoolShare) {
  const HoldingVerb& verb = GetParam();
  const Client other = Other();
  const std::vector<SequenceHandle> retained = RetainLarge(other, 3);
  ASSERT_EQ(retained.size(), 3u);
  ASSERT_EQ(HeldBlocks(other, kOtherUid), 0u);
  std::size_t refused = 0;
  for (const SequenceHandle sequence : retained) {
    const Status held = verb.hold(other, sequence);
    if (!held) {
      ++refused;
      ExpectRefusedByShare(held.error());
      if (verb.is_in_place) {
        const auto entry = other.Query(sequence);
        ASSERT_TRUE(entry) << entry.error().message;
        EXPECT_TRUE(IsRetained(*entry)) << "what was refused has changed nothing";
        EXPECT_EQ(entry->cell_count, kLargeCells);
      }
    }
    EXPECT_LE(HeldBlocks(other, kOtherUid), kShareBlocks);
  }
  // A divide holds the old and the new cells at the same time, so that all three are refused.
  EXPECT_EQ(refused, std::string_view(verb.name) == "Divide" ? 3u : 2u);
  // The daemon's own uid gets 85 of the 128 blocks, for 2,700 cells: the other uid's quota of 32
  // blocks leaves them free.
  const Client own = Connect();
  const auto sequence = Fill(own, 50, 2700);
  EXPECT_TRUE(sequence) << sequence.error().message;
}

// Sanitizer builds take every third verb, tenants other verbs than other uids.
std::vector<HoldingVerb> TestedVerbs() {
  std::vector<HoldingVerb> tested;
  const std::size_t apart = test::Stride(3);
  const std::size_t first = test::kOtherIsTenant ? apart - 1 : 0;
  for (std::size_t i = first; i < kHoldingVerbs.size(); i += apart)
    tested.push_back(kHoldingVerbs[i]);
  return tested;
}

INSTANTIATE_TEST_SUITE_P(All, RetainedSharesTest, testing::ValuesIn(TestedVerbs()),
                         [](const testing::TestParamInfo<HoldingVerb>& tested) {
                           return std::string(tested.param.name);
                         });

class PoolSharesTest : public test::SharesTest {};

// A block to which several sequences of a uid refer counts once for the uid.
TEST_F(PoolSharesTest, ForksOfPublicSnapshotsStayWithinThePoolShare) {
  const Client own = Connect();
  std::vector<SequenceHandle> published;
  for (std::size_t number = 0; number < 2; ++number) {
    const auto sequence = Fill(own, number, kLargeCells);
    ASSERT_TRUE(sequence) << sequence.error().message;
    const auto snapshot =
        own.Publish(*sequence, "public" + std::to_string(number), wire::kFlagPublic);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    published.push_back(*snapshot);
  }
  const Client other = Other();
  const auto first = other.Attach("public0");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(other.Attach("public0")) << "the same blocks";
  const auto attached = other.Attach("public1");
  EXPECT_FALSE(attached);
  if (!attached) ExpectRefusedByShare(attached.error());
  const auto forked = other.Fork(published[1], -1, 1);
  EXPECT_FALSE(forked);
  if (!forked) ExpectRefusedByShare(forked.error());
  EXPECT_TRUE(other.Fork(published[1], 64, 1)) << "a part that its share has room for";
  EXPECT_FALSE(other.Fork(published[1], 65, 1));
}

TEST_F(PoolSharesTest, AppendedCellsCountForEachFork) {
  const Client other = Other();
  const auto sequence = Fill(other, 1, 640);  // 20 blocks
  ASSERT_TRUE(sequence) << sequence.error().message;
  const auto forks = other.Fork(*sequence, -1, 3);
  ASSERT_TRUE(forks) << forks.error().message;
  std::size_t refused = 0;
  for (const SequenceHandle fork : *forks) {
    const Status appended = test::Append(other, fork, TokensOf(2, 192));  // 6 blocks
    if (appended) continue;
    ++refused;
    ExpectRefusedByShare(appended.error());
    EXPECT_EQ(other.Query(fork)->cell_count, 640u);
  }
  EXPECT_EQ(refused, 1u);
}

// The daemon has at most 32 sequences. The test fills the table with retained sequences of the
// daemon's own uid.
class FullTableTest : public test::SharesTest {
 protected:
  FullTableTest() : SharesTest({"--max-sequences", "32"}) {}
};

// A refused call may evict as many retained sequences as it needs, and changes nothing else.
TEST_F(FullTableTest, RefusedCallsEvictNoMoreThanOneCallNeeds) {
  const Client own = Connect();
  const Client other = Other();
  ASSERT_TRUE(Fill(other, 100, 320));
  const auto sequence = Fill(own, 101, kLargeCells);
  ASSERT_TRUE(sequence) << sequence.error().message;
  const auto published = own.Publish(*sequence, "public", wire::kFlagPublic);
  ASSERT_TRUE(published) << published.error().message;
  for (std::size_t number = 0; number < 40 && own.Info()->sequences_live < 32; ++number) {
    const auto filled = Fill(own, number, 32);
    ASSERT_TRUE(filled) << filled.error().message;
    ASSERT_TRUE(own.Retain(*filled).value_or(false));
  }
  const std::size_t retained = CountRetained(own);
  ASSERT_GE(retained, 28u);
  const std::uint64_t evicted = own.Info()->prefix_evictions;
  const std::uint64_t own_blocks = HeldBlocks(own, ::geteuid());
  const std::uint64_t other_blocks = HeldBlocks(other, kOtherUid);
  for (int round = 0; round < 10; ++round) {
    EXPECT_FALSE(other.Attach("public"));
    EXPECT_FALSE(other.Fork(*published, -1, 2));
    EXPECT_FALSE(other.Publish(*published, "name"));
  }
  EXPECT_EQ(own.Info()->prefix_evictions - evicted, 2u) << "room for two forks was made once";
  EXPECT_EQ(CountRetained(own), retained - 2);
  EXPECT_EQ(HeldBlocks(own, ::geteuid()), own_blocks);
  EXPECT_EQ(HeldBlocks(other, kOtherUid), other_blocks);
  EXPECT_TRUE(own.Fork(*published, -1, 2));
}

// ---------------------------------------------------------------------------------- list units

// The daemon has 832 list units; the other uid's quota is a quarter of them, 208.
class ListSharesTest : public test::SharesTest {
 protected:
  ListSharesTest() : SharesTest({"--max-sequences", "64"}) {}

  // Makes a sequence whose list has 450 extents, by removing every second of 900 cells.
  static Result<SequenceHandle> FillInParts(const Client& client, std::size_t number) {
    KVD_TRY(const SequenceHandle sequence, Fill(client, number, 900));
    for (int pos = 1; pos < 900; pos += 2) {
      KVD_TRY(const std::uint64_t removed, client.RemoveRange(sequence, {Pos{pos}, Pos{pos + 1}}));
      EXPECT_EQ(removed, 1u);
    }
    return sequence;
  }
};

TEST_F(ListSharesTest, LongListsOfAnotherUidLeaveListUnitsToTheOwnUid) {
  const Client other = Other();
  const auto source = FillInParts(other, 1);
  ASSERT_TRUE(source) << source.error().message;
  std::size_t forks = 0;
  for (; forks < 40; ++forks) {
    const auto fork = other.Fork(*source, -1, 1);
    if (fork) continue;
    ExpectRefusedByShare(fork.error());
    EXPECT_THAT(fork.error().message, testing::HasSubstr("list units"));
    EXPECT_THAT(fork.error().message, testing::HasSubstr("of 208"));
    break;
  }
  EXPECT_GE(forks, 2u);
  EXPECT_LT(forks, 10u);
  const Client own = Connect();
  const auto own_source = FillInParts(own, 2);
  ASSERT_TRUE(own_source) << own_source.error().message;
  const auto own_forks = own.Fork(*own_source, -1, 10);
  EXPECT_TRUE(own_forks) << own_forks.error().message;
}

// -------------------------------------------------------------------------------- saved states

class LoadQuotaTest : public test::SharesTest {
 protected:
  LoadQuotaTest() : LoadQuotaTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit LoadQuotaTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : SharesTest({"--other-sequences", "3", "--store", (folder->path() / "store").string()}),
        folder_(folder) {}
  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(LoadQuotaTest, RetainedSequencesCountNeitherAgainstALoadNorAgainstACreate) {
  const Client other = Other();
  std::vector<SequenceHandle> sequences;
  for (std::size_t number = 0; number < 3; ++number) {
    const auto sequence = Fill(other, number, 40);
    ASSERT_TRUE(sequence) << sequence.error().message;
    sequences.push_back(*sequence);
  }
  ASSERT_TRUE(other.Save(sequences[0], "saved"));
  const auto fourth = other.Load("saved");
  ASSERT_FALSE(fourth);
  ExpectRefusedByShare(fourth.error());
  for (const SequenceHandle sequence : sequences) {
    ASSERT_TRUE(other.Retain(sequence).value_or(false));
  }
  for (int i = 0; i < 3; ++i) {
    const auto loaded = other.Load("saved");
    EXPECT_TRUE(loaded) << loaded.error().message;
  }
  const auto one_more = other.Load("saved");
  ASSERT_FALSE(one_more);
  ExpectRefusedByShare(one_more.error());
}

TEST_F(LoadQuotaTest, AFileOfSeveralSequencesIsLoadedCompletelyOrNotAtAll) {
  {
    const Client other = Other();
    const auto sequence = Fill(other, 1, 480);
    ASSERT_TRUE(sequence) << sequence.error().message;
    ASSERT_TRUE(other.Fork(*sequence, -1, 1));
    ASSERT_TRUE(other.SaveAll("two"));
  }
  const Client other = Other();
  ASSERT_TRUE(Fill(other, 2, 480));
  const auto loaded = other.Load("two");
  ASSERT_FALSE(loaded);
  ExpectRefusedByShare(loaded.error());
  EXPECT_EQ(HeldBlocks(other, kOtherUid), 15u);
}

}  // namespace
}  // namespace kvd
