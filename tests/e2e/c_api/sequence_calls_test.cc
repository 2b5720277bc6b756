// The calls of the C interface that make, edit and describe sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/e2e/c_api/c_api_test.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::NewSequence;
using test::Refusal;

class SequenceCallsTest : public test::CApiTest {
 protected:
  SequenceCallsTest() : CApiTest({"-c", "16384", "--max-sequences", "200"}) {}
};

TEST_F(SequenceCallsTest, CreateMakesAnEmptySequenceWithItsOptions) {
  InBothForms([&] {
    kvd_sequence plain = 0;
    kvd_sequence brief = 0;
    ASSERT_EQ(
        Call([&](auto* later) { return kvd_sequence_create(client_, nullptr, &plain, later); }),
        KVD_OK)
        << kvd_error_message();
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_create(client_, NewSequence(60, KVD_EPHEMERAL), &brief, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(Query(plain).cell_count, 0u);
    EXPECT_EQ(Query(plain).expires_in_seconds, 0u);
    EXPECT_EQ(Query(plain).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
    EXPECT_GT(Query(brief).expires_in_seconds, 0u);
    EXPECT_NE(Query(brief).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
  });
}

TEST_F(SequenceCallsTest, ForkSharesTheFirstCells) {
  const kvd_sequence source = Filled(20);
  InBothForms([&] {
    kvd_sequence forks[2] = {};
    kvd_fork_info info{};
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_fork(client_, source, 8, 2, NewSequence(60, KVD_EPHEMERAL),
                                         forks, &info, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(info.cell_count, 8u);
    EXPECT_EQ(info.tokens_replayed, 0u);
    for (const kvd_sequence fork : forks) {
      EXPECT_EQ(Query(fork).cell_count, 8u);
      EXPECT_EQ(Query(fork).shared_cells, 8u);
      EXPECT_GT(Query(fork).expires_in_seconds, 0u);
      EXPECT_NE(Query(fork).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
    }
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_fork(client_, source, -1, 1, nullptr, forks, nullptr, later);
              }),
              KVD_OK);
    EXPECT_EQ(Cells(forks[0]), Cells(source));
  });
}

TEST_F(SequenceCallsTest, DropKeepAndClearTakeCellsAway) {
  InBothForms([&] {
    const kvd_sequence first = Filled(10);
    const kvd_sequence second = Filled(10);
    const kvd_sequence third = Filled(10);
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_drop(client_, first, 0, later); }),
              KVD_OK);
    EXPECT_FALSE(Exists(first));
    EXPECT_TRUE(Exists(third));
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_keep(client_, second, later); }), KVD_OK);
    EXPECT_FALSE(Exists(third));
    EXPECT_EQ(Query(second).cell_count, 10u);
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_clear(client_, second, later); }),
              KVD_OK);
    EXPECT_EQ(Query(second).cell_count, 0u);
  });
}

TEST_F(SequenceCallsTest, CopyAndRemoveChangeARange) {
  const kvd_sequence source = Filled(20);
  InBothForms([&] {
    const kvd_sequence destination = Create();
    std::uint64_t cells = 99;
    std::uint64_t replayed = 99;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_copy(client_, source, destination, 0, 10, &cells, &replayed,
                                         later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(cells, 10u);
    EXPECT_EQ(replayed, 0u);
    EXPECT_THAT(Cells(source), testing::StartsWith(Cells(destination)));
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_remove(client_, destination, 2, 5, &cells, &replayed, later);
              }),
              KVD_OK);
    EXPECT_EQ(cells, 3u);
    EXPECT_EQ(replayed, 0u);
    EXPECT_EQ(Query(destination).cell_count, 7u);
    EXPECT_EQ(Query(destination).next_pos, 10);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_remove(client_, destination, 0, -1, nullptr, nullptr, later);
              }),
              KVD_OK);
    EXPECT_EQ(Query(destination).cell_count, 0u);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_copy(client_, source, destination, 0, -1, nullptr, nullptr,
                                         later);
              }),
              KVD_OK);
    EXPECT_EQ(Cells(destination), Cells(source));
  });
}

TEST_F(SequenceCallsTest, AddAndDivideChangePositions) {
  InBothForms([&] {
    const kvd_sequence sequence = Filled(20);
    ASSERT_EQ(
        Call([&](auto* later) { return kvd_sequence_add(client_, sequence, 10, -1, 5, later); }),
        KVD_OK);
    EXPECT_EQ(Query(sequence).next_pos, 25);
    EXPECT_EQ(Query(sequence).delta_count, 2u);
    std::uint64_t cells = 99;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_divide(client_, sequence, 0, -1, 5, &cells, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_GT(cells, 0u);
    EXPECT_EQ(Query(sequence).next_pos, 5);
    EXPECT_EQ(Query(sequence).cell_count, 20u);
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_sequence_divide(client_, sequence, 0, -1, 1, nullptr, later);
              }),
              KVD_OK);
  });
}

TEST_F(SequenceCallsTest, RetainKeepsPristineCellsAndDropRetainedTakesThemAway) {
  InBothForms([&] {
    const kvd_sequence filled = Filled(64);
    const kvd_sequence empty = Create();
    int is_retained = 9;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_retain(client_, filled, 0, &is_retained, later);
              }),
              KVD_OK);
    EXPECT_EQ(is_retained, 1);
    EXPECT_NE(Query(filled).flags & KVD_SEQUENCE_RETAINED, 0u);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_retain(client_, empty, 0, &is_retained, later);
              }),
              KVD_OK);
    EXPECT_EQ(is_retained, 0);
    EXPECT_FALSE(Exists(empty));
    std::uint64_t count = 0;
    ASSERT_EQ(Call([&](auto* later) { return kvd_drop_retained(client_, 0, &count, later); }),
              KVD_OK);
    EXPECT_GE(count, 1u);
    EXPECT_FALSE(Exists(filled));
    EXPECT_EQ(Call([&](auto* later) { return kvd_drop_retained(client_, 0, nullptr, later); }),
              KVD_OK);
  });
}

TEST_F(SequenceCallsTest, DropRetainedTakesPinnedSequencesByForceOnly) {
  InBothForms([&] {
    const kvd_sequence pinned = Filled(64);
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_pin(client_, pinned, 1, 0, later); }),
              KVD_OK);
    EXPECT_NE(Query(pinned).flags & KVD_SEQUENCE_PINNED, 0u);
    ASSERT_EQ(kvd_sequence_retain(client_, pinned, 0, nullptr, nullptr), KVD_OK);
    ASSERT_EQ(kvd_drop_retained(client_, 0, nullptr, nullptr), KVD_OK);
    EXPECT_TRUE(Exists(pinned));
    std::uint64_t count = 0;
    ASSERT_EQ(
        Call([&](auto* later) { return kvd_drop_retained(client_, KVD_FORCE, &count, later); }),
        KVD_OK);
    EXPECT_EQ(count, 1u);
    EXPECT_FALSE(Exists(pinned));
    const kvd_sequence unpinned = Filled(10);
    ASSERT_EQ(kvd_sequence_pin(client_, unpinned, 1, 0, nullptr), KVD_OK);
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_pin(client_, unpinned, 0, 0, later); }),
              KVD_OK);
    EXPECT_EQ(Query(unpinned).flags & KVD_SEQUENCE_PINNED, 0u);
  });
}

TEST_F(SequenceCallsTest, LifeSetsTheExpiryAndMakesEphemeral) {
  InBothForms([&] {
    const kvd_sequence sequence = Filled(64);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_life(client_, sequence, 100, KVD_EPHEMERAL, later);
              }),
              KVD_OK);
    EXPECT_GT(Query(sequence).expires_in_seconds, 0u);
    EXPECT_LE(Query(sequence).expires_in_seconds, 100u);
    EXPECT_NE(Query(sequence).flags & KVD_SEQUENCE_EPHEMERAL, 0u);
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_life(client_, sequence, 0, 0, later); }),
              KVD_OK);
    EXPECT_EQ(Query(sequence).expires_in_seconds, 0u);
    const kvd_sequence retained = Filled(64);
    ASSERT_EQ(kvd_sequence_retain(client_, retained, 0, nullptr, nullptr), KVD_OK);
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_sequence_life(client_, retained, 0, KVD_EPHEMERAL | KVD_FORCE, later);
              }),
              KVD_INVALID_ARGUMENT);
    ASSERT_EQ(kvd_drop_retained(client_, 0, nullptr, nullptr), KVD_OK);
  });
}

TEST_F(SequenceCallsTest, QueryListLogAndReadTokensDescribeASequence) {
  const kvd_sequence parent = Filled(20);
  kvd_sequence fork = 0;
  ASSERT_EQ(kvd_sequence_fork(client_, parent, 12, 1, nullptr, &fork, nullptr, nullptr), KVD_OK);
  ASSERT_EQ(kvd_sequence_add(client_, fork, 6, -1, 3, nullptr), KVD_OK);
  InBothForms([&] {
    kvd_sequence_info info{};
    ASSERT_EQ(Call([&](auto* later) { return kvd_sequence_query(client_, fork, &info, later); }),
              KVD_OK);
    EXPECT_EQ(info.handle, fork);
    EXPECT_EQ(info.cell_count, 12u);
    EXPECT_EQ(info.next_pos, 15);
    kvd_sequence_info* list = nullptr;
    std::size_t count = 0;
    ASSERT_EQ(Call([&](auto* later) { return kvd_list(client_, &list, &count, later); }), KVD_OK);
    EXPECT_EQ(std::count_if(list, list + count,
                            [&](const auto& entry) {
                              return entry.handle == fork || entry.handle == parent;
                            }),
              2);
    kvd_free(list);
    kvd_log_entry* log = nullptr;
    ASSERT_EQ(Call([&](auto* later) { return kvd_log(client_, fork, &log, &count, later); }),
              KVD_OK);
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(log[0].parent, parent);
    EXPECT_EQ(log[0].parent_cells, 12u);
    ASSERT_EQ(log[0].edit_count, 1u);
    EXPECT_EQ(log[0].edits[0].kind, KVD_EDIT_SHIFTED);
    EXPECT_EQ(log[0].edits[0].delta, 3);
    EXPECT_EQ(log[1].sequence, parent);
    kvd_free(log);
    kvd_token_at* tokens = nullptr;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_read_tokens(client_, fork, 5, 3, &tokens, &count, later);
              }),
              KVD_OK);
    ASSERT_EQ(count, 3u);
    EXPECT_EQ(tokens[0].pos, 5);
    EXPECT_EQ(tokens[1].pos, 9);
    EXPECT_EQ(tokens[2].token, 5 + 7);
    kvd_free(tokens);
  });
}

// What a call on a sequence needs: a session of the same user, the session of the sequence, or also
// that no request computes on the sequence.
enum class Needs : std::uint8_t { kUser, kSession, kIdle };

// A call on one sequence, with outputs that the test does not read.
struct CallOn {
  const char* name;
  Needs needs;
  std::function<int(kvd_client*, kvd_sequence, kvd_request*)> call;
};

std::vector<CallOn> EveryCallOnASequence() {
  static kvd_sequence made = 0;
  static kvd_sequence_info info;
  static kvd_log_entry* log = nullptr;
  static kvd_token_at* tokens = nullptr;
  static char* text = nullptr;
  static std::size_t count = 0;
  return {
      {"fork", Needs::kUser,
       [](auto* c, auto s, auto* later) {
         return kvd_sequence_fork(c, s, -1, 1, nullptr, &made, nullptr, later);
       }},
      {"query", Needs::kUser,
       [](auto* c, auto s, auto* later) { return kvd_sequence_query(c, s, &info, later); }},
      {"log", Needs::kUser,
       [](auto* c, auto s, auto* later) { return kvd_log(c, s, &log, &count, later); }},
      {"read_tokens", Needs::kUser,
       [](auto* c, auto s, auto* later) {
         return kvd_read_tokens(c, s, 0, -1, &tokens, &count, later);
       }},
      {"read_text", Needs::kUser,
       [](auto* c, auto s, auto* later) { return kvd_read_text(c, s, 0, &text, &count, later); }},
      {"drop", Needs::kSession,
       [](auto* c, auto s, auto* later) { return kvd_sequence_drop(c, s, 0, later); }},
      {"copy", Needs::kIdle,
       [](auto* c, auto s, auto* later) {
         return kvd_sequence_copy(c, s, s, 0, 1, nullptr, nullptr, later);
       }},
      {"remove", Needs::kIdle,
       [](auto* c, auto s, auto* later) {
         return kvd_sequence_remove(c, s, 0, 1, nullptr, nullptr, later);
       }},
      {"retain", Needs::kSession,
       [](auto* c, auto s, auto* later) { return kvd_sequence_retain(c, s, 0, nullptr, later); }},
      {"pin", Needs::kSession,
       [](auto* c, auto s, auto* later) { return kvd_sequence_pin(c, s, 1, 0, later); }},
      {"life", Needs::kSession,
       [](auto* c, auto s, auto* later) { return kvd_sequence_life(c, s, 1000, 0, later); }},
      {"keep", Needs::kSession,
       [](auto* c, auto s, auto* later) { return kvd_sequence_keep(c, s, later); }},
      {"clear", Needs::kIdle,
       [](auto* c, auto s, auto* later) { return kvd_sequence_clear(c, s, later); }},
      {"add", Needs::kIdle,
       [](auto* c, auto s, auto* later) { return kvd_sequence_add(c, s, 0, -1, 1, later); }},
      {"divide", Needs::kIdle,
       [](auto* c, auto s, auto* later) {
         return kvd_sequence_divide(c, s, 0, -1, 2, nullptr, later);
       }},
      {"publish", Needs::kUser,
       [](auto* c, auto s, auto* later) {
         return kvd_publish(c, s, "published", nullptr, nullptr, later);
       }},
  };
}

TEST_F(SequenceCallsTest, EveryCallRefusesAnUnknownSequenceAnotherSessionsAndAChildsClient) {
  const kvd_sequence sequence = Filled(10);
  kvd_client* other = Open();
  const std::string before = Cells(sequence);
  std::vector<Refusal> refusals;
  for (const CallOn& row : EveryCallOnASequence()) {
    refusals.push_back({KVD_NOT_FOUND, "", [this, row](auto* later) {
                          SCOPED_TRACE(row.name);
                          return row.call(client_, 99, later);
                        }});
    refusals.push_back({KVD_INVALID_ARGUMENT, "client: a null pointer", [row](auto* later) {
                          SCOPED_TRACE(row.name);
                          return row.call(nullptr, 99, later);
                        }});
  }
  ExpectRefused(refusals);
  for (const CallOn& row : EveryCallOnASequence()) {
    if (row.needs == Needs::kUser) continue;
    EXPECT_EQ(row.call(other, sequence, nullptr), KVD_PERMISSION) << row.name;
    kvd_request request = 0;
    ASSERT_EQ(row.call(other, sequence, &request), KVD_OK) << row.name;
    EXPECT_EQ(kvd_finish(other, request, test::kPatienceMs), KVD_PERMISSION) << row.name;
  }
  kvd_close(other);
  EXPECT_EQ(Cells(sequence), before);
}

TEST_F(SequenceCallsTest, EveryEditRefusesASequenceOnWhichARequestComputes) {
  const kvd_sequence sequence = Create();
  const kvd_request request = Compute(sequence);
  std::vector<Refusal> refusals;
  for (const CallOn& row : EveryCallOnASequence()) {
    if (row.needs != Needs::kIdle) continue;
    refusals.push_back({KVD_BUSY, "", [this, row, sequence](auto* later) {
                          SCOPED_TRACE(row.name);
                          return row.call(client_, sequence, later);
                        }});
  }
  ExpectRefused(refusals);
  Cancel(request);
}

TEST_F(SequenceCallsTest, ForceReachesSequencesOfOtherSessions) {
  kvd_client* other = Open();
  InBothForms([&] {
    kvd_sequence sequence = 0;
    ASSERT_EQ(kvd_sequence_create(other, nullptr, &sequence, nullptr), KVD_OK);
    EXPECT_EQ(
        Call([&](auto* later) { return kvd_sequence_pin(client_, sequence, 1, KVD_FORCE, later); }),
        KVD_OK);
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_sequence_life(client_, sequence, 100, KVD_FORCE, later);
              }),
              KVD_OK);
    EXPECT_GT(Query(sequence).expires_in_seconds, 0u);
    EXPECT_EQ(
        Call([&](auto* later) { return kvd_sequence_drop(client_, sequence, KVD_FORCE, later); }),
        KVD_OK);
    EXPECT_FALSE(Exists(sequence));
    ASSERT_EQ(kvd_sequence_create(other, nullptr, &sequence, nullptr), KVD_OK);
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_sequence_retain(client_, sequence, KVD_FORCE, nullptr, later);
              }),
              KVD_OK);
    EXPECT_FALSE(Exists(sequence));
  });
  kvd_close(other);
}

TEST_F(SequenceCallsTest, ArgumentsOutOfRangeAreNamed) {
  const kvd_sequence s = Filled(20);
  kvd_sequence made[1025] = {};
  const std::uint32_t ttl = 31'536'001;
  kvd_sequence_options unsized{};
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "sequence: a null pointer",
       [&](auto* later) { return kvd_sequence_create(client_, nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "size: 0 bytes",
       [&](auto* later) { return kvd_sequence_create(client_, &unsized, made, later); }},
      {KVD_INVALID_ARGUMENT, "ttl_seconds",
       [&](auto* later) { return kvd_sequence_create(client_, NewSequence(ttl), made, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) {
         return kvd_sequence_create(client_, NewSequence(0, KVD_FORCE), made, later);
       }},
      {KVD_INVALID_ARGUMENT, "forks: a null pointer",
       [&](auto* later) {
         return kvd_sequence_fork(client_, s, -1, 1, nullptr, nullptr, nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "fork.count",
       [&](auto* later) {
         return kvd_sequence_fork(client_, s, -1, 0, nullptr, made, nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "fork.count",
       [&](auto* later) {
         return kvd_sequence_fork(client_, s, -1, 1025, nullptr, made, nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "cell_count: 21",
       [&](auto* later) {
         return kvd_sequence_fork(client_, s, 21, 1, nullptr, made, nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "ttl_seconds",
       [&](auto* later) {
         return kvd_sequence_fork(client_, s, -1, 1, NewSequence(ttl), made, nullptr, later);
       }},
      {KVD_NO_SPACE, "sequences",
       [&](auto* later) {
         return kvd_sequence_fork(client_, s, -1, 1024, nullptr, made, nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "p0: -1",
       [&](auto* later) {
         return kvd_sequence_copy(client_, s, s, -1, 5, nullptr, nullptr, later);
       }},
      {KVD_EXISTS, "",
       [&](auto* later) {
         return kvd_sequence_copy(client_, Filled(20), s, 0, 5, nullptr, nullptr, later);
       }},
      {KVD_INVALID_ARGUMENT, "p1: 4",
       [&](auto* later) { return kvd_sequence_remove(client_, s, 5, 4, nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_sequence_drop(client_, s, KVD_PUBLIC, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_sequence_retain(client_, s, KVD_PUBLIC, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_sequence_pin(client_, s, 1, KVD_PUBLIC, later); }},
      {KVD_INVALID_ARGUMENT, "ttl_seconds",
       [&](auto* later) { return kvd_sequence_life(client_, s, ttl, 0, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return kvd_drop_retained(client_, KVD_PUBLIC, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "",
       [&](auto* later) { return kvd_sequence_add(client_, s, 0, -1, -1, later); }},
      {KVD_INVALID_ARGUMENT, "",
       [&](auto* later) { return kvd_sequence_add(client_, s, 10, -1, -5, later); }},
      {KVD_INVALID_ARGUMENT, "",
       [&](auto* later) { return kvd_sequence_add(client_, s, 0, 10, 30, later); }},
      {KVD_INVALID_ARGUMENT, "divisor",
       [&](auto* later) { return kvd_sequence_divide(client_, s, 0, -1, 0, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "info: a null pointer",
       [&](auto* later) { return kvd_sequence_query(client_, s, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "list: a null pointer",
       [&](auto* later) { return kvd_list(client_, nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "list: a null pointer",
       [&](auto* later) { return kvd_log(client_, s, nullptr, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "tokens: a null pointer",
       [&](auto* later) { return kvd_read_tokens(client_, s, 0, 1, nullptr, nullptr, later); }},
  });
  EXPECT_EQ(Query(s).cell_count, 20u);
}

TEST_F(SequenceCallsTest, CreateFailsIfThereAreTooManySequences) {
  std::vector<kvd_sequence> forks(199);
  const kvd_sequence source = Create();
  ASSERT_EQ(kvd_sequence_fork(client_, source, -1, 199, nullptr, forks.data(), nullptr, nullptr),
            KVD_OK)
      << kvd_error_message();
  kvd_sequence sequence = 0;
  ExpectRefused({{KVD_NO_SPACE, "sequences", [&](auto* later) {
                    return kvd_sequence_create(client_, nullptr, &sequence, later);
                  }}});
  EXPECT_EQ(sequence, 0u);
}

TEST_F(SequenceCallsTest, DivideNeedsRoomForTheRewrittenCells) {
  const kvd_sequence sequence = Filled(4000);
  for (int i = 0; i < 3; ++i) (void)Filled(4000);
  ExpectRefused({{KVD_NO_SPACE, "", [&](auto* later) {
                    return kvd_sequence_divide(client_, sequence, 0, -1, 2, nullptr, later);
                  }}});
  EXPECT_EQ(Query(sequence).next_pos, 4000);
}

// A model with recurrent state: an edit may need a state slot, or computes tokens again.
class RecurrentCallsTest : public test::CApiTest {
 protected:
  RecurrentCallsTest()
      : CApiTest({"-m", test::TinyModelPath(test::TinyOf(Architecture::kMamba)), "-c", "4096",
                  "--state-slots", "16"}) {}
};

TEST_F(RecurrentCallsTest, EditsReplayTokensAndRefuseWhatAStateDoesNotPermit) {
  const kvd_sequence source = Filled(30);
  std::uint64_t cells = 0;
  InBothForms([&] {
    const kvd_sequence destination = Create();
    std::uint64_t replayed = 0;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_copy(client_, source, destination, 0, 20, &cells, &replayed,
                                         later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(cells, 20u);
    EXPECT_GT(replayed, 0u);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_remove(client_, destination, 10, -1, &cells, &replayed, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(cells, 10u);
    EXPECT_GT(replayed, 0u);
    kvd_sequence fork = 0;
    kvd_fork_info info{};
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_sequence_fork(client_, source, 7, 1, nullptr, &fork, &info, later);
              }),
              KVD_OK);
    EXPECT_GT(info.tokens_replayed, 0u);
    ASSERT_EQ(kvd_sequence_drop(client_, fork, 0, nullptr), KVD_OK);
    ASSERT_EQ(kvd_sequence_drop(client_, destination, 0, nullptr), KVD_OK);
  });
  const kvd_sequence empty = Create();
  const kvd_sequence full = Filled(5);
  ExpectRefused({
      {KVD_UNSUPPORTED, "",
       [&](auto* later) {
         return kvd_sequence_copy(client_, source, empty, 5, 10, nullptr, nullptr, later);
       }},
      {KVD_UNSUPPORTED, "",
       [&](auto* later) {
         return kvd_sequence_copy(client_, source, full, 0, 10, nullptr, nullptr, later);
       }},
  });
}

TEST_F(RecurrentCallsTest, RemoveNeedsAFreeStateSlot) {
  const kvd_sequence source = Filled(30);
  int code = KVD_OK;
  for (int i = 0; i < 32 && code == KVD_OK; ++i) {
    const kvd_token token = 40 + i;
    kvd_logits logits;
    code = kvd_decode(client_, Create(), &token, 1, 0, KVD_LOGITS_NONE, &logits, nullptr);
  }
  EXPECT_EQ(code, KVD_NO_SPACE) << kvd_error_message();
  ExpectRefused({{KVD_NO_SPACE, "", [&](auto* later) {
                    return kvd_sequence_remove(client_, source, 10, -1, nullptr, nullptr, later);
                  }}});
  EXPECT_EQ(Query(source).cell_count, 30u);
}

// A model with sliding windows of 45 positions.
class WindowCallsTest : public test::CApiTest {
 protected:
  WindowCallsTest()
      : CApiTest({"-m", test::TinyModelPath(test::TinyOf(Architecture::kGemma2)), "-c", "4096"}) {}
};

TEST_F(WindowCallsTest, RemovingCellsBehindADroppedWindowIsRefused) {
  const kvd_sequence sequence = Create();
  const std::vector<kvd_token> tokens(400, 7);
  kvd_logits logits;
  ASSERT_EQ(kvd_decode(client_, sequence, tokens.data(), tokens.size(), 0, KVD_LOGITS_NONE, &logits,
                       nullptr),
            KVD_OK)
      << kvd_error_message();
  ExpectRefused({{KVD_WINDOW_LOST, "", [&](auto* later) {
                    return kvd_sequence_remove(client_, sequence, 100, -1, nullptr, nullptr, later);
                  }}});
  EXPECT_EQ(Query(sequence).cell_count, 400u);
}

}  // namespace
}  // namespace kvd
