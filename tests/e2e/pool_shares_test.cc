// However another uid makes sequences held, it keeps within its share of the pool, and the daemon's
// own uid has the rest. Needs root.
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/support/shares_fixture.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::Fill;
using test::kOtherUid;
using test::TokensOf;

// What makes a retained sequence, or something of it, count for its uid again.
struct HoldingVerb {
  const char* name;
  Status (*hold)(const Client& client, SequenceHandle retained);
};

template <class T>
Status StatusOf(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

const std::vector<HoldingVerb> kHoldingVerbs = {
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

TEST_P(RetainedSharesTest, WhatRetainedSequencesBecomeStaysWithinThePoolShare) {
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
      const auto entry = other.Query(sequence);
      ASSERT_TRUE(entry) << entry.error().message;
      EXPECT_TRUE(IsRetained(*entry)) << "what was refused has changed nothing";
      EXPECT_EQ(entry->cell_count, kLargeCells);
    }
    EXPECT_LE(HeldBlocks(other, kOtherUid), kShareBlocks);
  }
  // Dividing holds what was and what is to be at the same time.
  EXPECT_EQ(refused, std::string_view(verb.name) == "Divide" ? 3u : 2u);
  // 121 of the 128 blocks are its own uid's and the other's together.
  const Client own = Connect();
  const auto sequence = Fill(own, 50, 2700);
  EXPECT_TRUE(sequence) << sequence.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, RetainedSharesTest, testing::ValuesIn(kHoldingVerbs),
                         [](const testing::TestParamInfo<HoldingVerb>& tested) {
                           return std::string(tested.param.name);
                         });

// -------------------------------------------------------------------------------- saved states

class LoadQuotaTest : public test::SharesTest {
 protected:
  LoadQuotaTest() : LoadQuotaTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit LoadQuotaTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : SharesTest({"--other-sequences", "3", "--store", (folder->path() / "store").string()}),
        folder_(folder) {}
  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(LoadQuotaTest, RetainedSequencesDoNotCountAgainstALoadJustAsAgainstACreate) {
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

TEST_F(LoadQuotaTest, AFileOfSeveralSequencesIsLoadedWithinThePoolShareOrNotAtAll) {
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
