// Tests that a call that fails changes nothing: a retained sequence stays retained, no sequence is
// evicted, and no tokens are appended.
#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/shares_fixture.h"

namespace kvd {
namespace {

using test::Append;
using test::Fill;
using test::TokensOf;

constexpr std::uint32_t kLiveAndRetained = layout::kSequenceLive | layout::kSequenceRetained;

template <class T>
Error ErrorOf(const Result<T>& result) {
  return result ? Error{Code::kOk, "done"} : result.error();
}

struct RefusedCall {
  const char* name;
  Error (*call)(const Client& client, SequenceHandle retained);  // the sequence has 40 cells
  Code code = Code::kInvalidArgument;
};

Error DecodeAt(const Client& client, SequenceHandle sequence, std::int32_t pos) {
  auto decoding = client.StartDecode(sequence, TokensOf(1, 3), Pos{pos}, wire::LogitsWanted::kLast);
  return decoding ? ErrorOf(decoding->Next()) : decoding.error();
}

Error GenerateWith(const Client& client, SequenceHandle sequence, const GenerateOptions& options) {
  auto generation = client.StartGenerate(sequence, options);
  return generation ? ErrorOf(generation->Next()) : generation.error();
}

const std::vector<RefusedCall> kRefusedCalls = {
    {"DecodeBehindTheEnd",
     [](const Client& client, SequenceHandle retained) { return DecodeAt(client, retained, 99); }},
    {"DecodeBeforeTheEnd",
     [](const Client& client, SequenceHandle retained) { return DecodeAt(client, retained, 39); }},
    {"DecodeOfMoreTokensThanThePoolHas",
     [](const Client& client, SequenceHandle retained) {
       auto decoding = client.StartDecode(retained, std::vector<TokenId>(5000, 7), Pos{40},
                                          wire::LogitsWanted::kLast);
       return decoding ? ErrorOf(decoding->Next()) : decoding.error();
     },
     Code::kTooLarge},
    {"GenerateAtAnotherPosition",
     [](const Client& client, SequenceHandle retained) {
       const std::vector<TokenId> prompt = TokensOf(1, 3);
       return GenerateWith(client, retained, {.tokens = prompt, .pos = Pos{99}});
     }},
    {"GenerateWithoutAKeptSampler",
     [](const Client& client, SequenceHandle retained) {
       return GenerateWith(client, retained,
                           {.tokens = {}, .flags = wire::kContinue | wire::kResumeSampler});
     },
     Code::kNotFound},
    {"AddThatOverlaps",
     [](const Client& client, SequenceHandle retained) {
       return ErrorOf(client.Add(retained, {Pos{20}, kPosEnd}, -15));
     }},
    {"AddBelowZero",
     [](const Client& client, SequenceHandle retained) {
       return ErrorOf(client.Add(retained, {Pos{0}, kPosEnd}, -1));
     }},
    {"DivideByZero",
     [](const Client& client, SequenceHandle retained) {
       return ErrorOf(client.Divide(retained, {}, 0));
     }},
    {"RemoveRangeThatEndsBeforeItBegins",
     [](const Client& client, SequenceHandle retained) {
       return ErrorOf(client.RemoveRange(retained, {Pos{9}, Pos{5}}));
     }},
    {"CopyRangeIntoItself",
     [](const Client& client, SequenceHandle retained) {
       return ErrorOf(client.CopyRange(retained, retained, {Pos{0}, Pos{5}}));
     }},
    {"CopyRangeOntoItsPositions",
     [](const Client& client, SequenceHandle retained) {
       const auto source = Fill(client, 7, 20);
       return source ? ErrorOf(client.CopyRange(*source, retained, {Pos{0}, Pos{5}}))
                     : source.error();
     },
     Code::kExists},
};

class RefusedCallsTest : public test::ServedDaemonTest,
                         public testing::WithParamInterface<RefusedCall> {};

TEST_P(RefusedCallsTest, RefusedCallsLeaveARetainedSequenceRetained) {
  const Client client = Connect();
  const auto sequence = Fill(client, 3, 40);
  ASSERT_TRUE(sequence) << sequence.error().message;
  ASSERT_TRUE(client.Retain(*sequence).value_or(false));
  const auto before = client.Query(*sequence);
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_EQ(before->flags, kLiveAndRetained);
  // A successful call of another session would also change the sequence's owner.
  const Client sibling = Connect();
  for (const Client* const caller : {&client, &sibling}) {
    const Error error = GetParam().call(*caller, *sequence);
    EXPECT_EQ(error.code, GetParam().code) << error.message;
    const auto after = client.Query(*sequence);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(after->flags, kLiveAndRetained);
    EXPECT_EQ(after->session, before->session);
    EXPECT_EQ(after->cell_count, 40u);
    EXPECT_EQ(after->next_pos, 40);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RefusedCallsTest, testing::ValuesIn(kRefusedCalls),
                         [](const testing::TestParamInfo<RefusedCall>& tested) {
                           return std::string(tested.param.name);
                         });

// -------------------------------------------------------------------------------------- eviction

// The daemon has at most 16 sequences and a model whose layers drop cells outside a window of 16.
class FullTableTest : public test::ServedDaemonTest {
 protected:
  FullTableTest() : ServedDaemonTest({"-m", test::DataModel("window"), "--max-sequences", "16"}) {}

  // Makes retained sequences until the table is full. Returns their number.
  static std::size_t RetainUntilFull(const Client& client) {
    for (std::size_t number = 0; client.List()->size() < 16; ++number) {
      const auto sequence = Fill(client, number, 40);
      if (!sequence || !client.Retain(*sequence).value_or(false)) {
        ADD_FAILURE() << number << " is not retained";
        break;
      }
    }
    return client.Info()->sequences_retained;
  }
};

TEST_F(FullTableTest, AForkThatIsRefusedEvictsNothing) {
  const Client client = Connect();
  const auto source = Fill(client, 1000, 120);
  ASSERT_TRUE(source) << source.error().message;
  const std::size_t retained = RetainUntilFull(client);
  ASSERT_GE(retained, 10u);
  const std::uint64_t evicted = client.Info()->prefix_evictions;
  const auto lost = client.Fork(*source, 40, 1);
  ASSERT_FALSE(lost) << "cells before the window are dropped";
  EXPECT_EQ(lost.error().code, Code::kWindowLost) << lost.error().message;
  const auto beyond = client.Fork(*source, 121, 1);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Code::kInvalidArgument) << beyond.error().message;
  const auto many = client.Fork(*source, -1, 17);
  ASSERT_FALSE(many) << "more than the table has";
  EXPECT_EQ(many.error().code, Code::kNoSpace) << many.error().message;
  EXPECT_EQ(client.Info()->prefix_evictions, evicted);
  EXPECT_EQ(client.Info()->sequences_retained, retained);
  // A fork that succeeds evicts one retained sequence.
  EXPECT_TRUE(client.Fork(*source, -1, 1));
  EXPECT_EQ(client.Info()->sequences_retained, retained - 1);
}

TEST_F(FullTableTest, APublishThatIsRefusedEvictsNothing) {
  const Client client = Connect();
  const auto source = Fill(client, 1000, 120);
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_TRUE(client.Publish(*source, "taken"));
  const std::size_t retained = RetainUntilFull(client);
  ASSERT_GE(retained, 9u);
  const std::uint64_t evicted = client.Info()->prefix_evictions;
  EXPECT_EQ(ErrorOf(client.Publish(*source, "taken")).code, Code::kExists);
  EXPECT_EQ(ErrorOf(client.Publish(*source, "no/name")).code, Code::kInvalidArgument);
  EXPECT_EQ(client.Info()->prefix_evictions, evicted);
  EXPECT_EQ(client.Info()->sequences_retained, retained);
}

// ----------------------------------------------------------------------------- several steps

class SmallPoolTest : public test::ServedDaemonTest {
 protected:
  explicit SmallPoolTest(const char* cells = "1024")
      : ServedDaemonTest({"-c", cells, "--ubatch-size", "64"}) {}
};

TEST_F(SmallPoolTest, ADecodeOfSeveralStepsThatRunsOutOfCellsAppendsNothing) {
  const Client client = Connect();
  for (std::size_t round = 0; round < 5; ++round) {
    std::vector<SequenceHandle> sequences;
    std::vector<Decoding> decodings;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto sequence = Fill(client, 10 * round + i, 10);
      ASSERT_TRUE(sequence) << sequence.error().message;
      sequences.push_back(*sequence);
    }
    // The pool has room for either prompt, but not for both.
    for (std::size_t i = 0; i < 2; ++i) {
      auto decoding = client.StartDecode(sequences[i], TokensOf(20 + i, 600), Pos{10},
                                         wire::LogitsWanted::kLast, wire::kFlagNoPrefix);
      ASSERT_TRUE(decoding) << decoding.error().message;
      decodings.push_back(std::move(*decoding));
    }
    std::size_t refused = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const Error error = ErrorOf(decodings[i].Next());
      const auto entry = client.Query(sequences[i]);
      ASSERT_TRUE(entry) << entry.error().message;
      if (error.code == Code::kOk) {
        EXPECT_EQ(entry->cell_count, 610u);
        continue;
      }
      ++refused;
      EXPECT_EQ(error.code, Code::kNoSpace) << error.message;
      EXPECT_EQ(entry->cell_count, 10u) << error.message;
      EXPECT_EQ(entry->next_pos, 10);
    }
    EXPECT_GE(refused, 1u);
    for (const SequenceHandle sequence : sequences) ASSERT_TRUE(client.Drop(sequence));
  }
}

class SixClientsTest : public SmallPoolTest {
 protected:
  SixClientsTest() : SmallPoolTest("8192") {}
};

TEST_F(SixClientsTest, DecodesThatFillThePoolAreRefusedAndAppendNothing) {
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(Connect());
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      threads.emplace_back([&, i] {
        const Client& client = clients[i];
        for (int sequences = 0; sequences < 40; ++sequences) {
          const auto sequence = client.Create();
          ASSERT_TRUE(sequence) << sequence.error().message;
          const auto tokens = TokensOf(100 * i + static_cast<std::size_t>(sequences), 70);
          const Status appended = Append(client, *sequence, tokens);
          const auto entry = client.Query(*sequence);
          ASSERT_TRUE(entry) << entry.error().message;
          if (appended) {
            EXPECT_EQ(entry->cell_count, 70u);
            continue;
          }
          EXPECT_EQ(appended.error().code, Code::kNoSpace) << appended.error().message;
          EXPECT_EQ(entry->cell_count, 0u) << appended.error().message;
          ++refused;
        }
      });
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace kvd
