#include "daemon/verbs/service.h"

#include <limits>

#include "daemon/sessions/owners.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::kOther;
using test::kOwn;
using test::ReceivedCompletion;
using test::ServiceTest;
using ::testing::HasSubstr;
using wire::Verb;

TEST_F(ServiceTest, PingReturnsTheSameBytes) {
  EXPECT_EQ(Text(CallText(client_, Make(Verb::kPing), "hello")), "hello");
}

TEST_F(ServiceTest, UnknownAndStaleHandlesAreNotFoundByEveryVerb) {
  const SequenceHandle stale = Create(client_);
  ASSERT_EQ(Call(client_, Make(Verb::kDrop, stale)).code(), Code::kOk);
  for (const SequenceHandle handle :
       {stale, MakeHandle(0xffffffffu, 1), static_cast<SequenceHandle>(~std::uint64_t{0})}) {
    for (const Verb verb : {Verb::kDrop, Verb::kRemoveRange, Verb::kKeep, Verb::kClear, Verb::kAdd,
                            Verb::kQuery, Verb::kReadTokens, Verb::kReadText}) {
      ExpectRefused(Call(client_, Make(verb, handle)), Code::kNotFound, "no such sequence");
    }
    wire::Submission fork = Make(wire::ForkArgs{.sequence = handle});
    ExpectRefused(Call(client_, fork), Code::kNotFound, "no such sequence");
    ExpectRefused(CallTokens(client_, Make(Verb::kDecode, handle), {5}), Code::kNotFound,
                  "no such sequence");
  }
}

TEST_F(ServiceTest, AForkIntoZeroOrAMillionIsRefused) {
  const SequenceHandle sequence = Filled(client_, 40);
  const std::uint32_t live = engine_.memory().Usage().live_sequences;
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1'000'000},
                                   std::numeric_limits<std::int64_t>::max()}) {
    wire::Submission fork = Make(Verb::kFork, sequence);
    fork.p0 = -1;
    fork.argument = count;
    const ReceivedCompletion reply = Call(client_, fork);
    ExpectRefused(reply, Code::kInvalidArgument, std::to_string(count).c_str());
  }
  EXPECT_EQ(engine_.memory().Usage().live_sequences, live);
}

TEST_F(ServiceTest, ForkReportsHandlesCellsAndNanoseconds) {
  const SequenceHandle sequence = Filled(client_, 40);
  wire::Submission fork = Make(wire::ForkArgs{.sequence = sequence, .cells = 33, .count = 3});
  const ReceivedCompletion reply = Call(client_, fork);
  ASSERT_EQ(reply.code(), Code::kOk) << Text(reply);
  const auto forked = reply.As<wire::ForkReply>();
  EXPECT_EQ(forked.cells, 33u);
  EXPECT_GT(forked.nanoseconds, 0u);
  ASSERT_EQ(forked.handles.size(), 3u);
  for (const SequenceHandle handle : forked.handles) EXPECT_EQ(Cells(handle), 33u);
}

TEST_F(ServiceTest, TokensOutsideTheVocabularyAreNamedByIndexAndNothingIsComputed) {
  const SequenceHandle sequence = Create(client_);
  for (const TokenId bad : {64, -1, std::numeric_limits<TokenId>::max()}) {
    const ReceivedCompletion reply =
        CallTokens(client_, Make(Verb::kDecode, sequence), {5, 6, bad});
    ExpectRefused(reply, Code::kInvalidArgument, std::to_string(bad).c_str());
    EXPECT_THAT(Text(reply), HasSubstr("2"));
  }
  ExpectRefused(CallTokens(client_, Make(Verb::kDecode, sequence), {}), Code::kInvalidArgument,
                "payload");
  RunDry();
  EXPECT_EQ(Cells(sequence), 0u);
}

TEST_F(ServiceTest, EveryPositionButTheNextIsRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  for (const std::int32_t pos : {0, 9, 11, -5, std::numeric_limits<std::int32_t>::max()}) {
    wire::Submission decode = Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{pos}});
    EXPECT_EQ(CallTokens(client_, decode, {5}).code(), Code::kInvalidArgument) << pos;
  }
  RunDry();
  EXPECT_EQ(Cells(sequence), 10u);
}

TEST_F(ServiceTest, MoreTokensThanThePoolHasCellsAreRefusedAtOnce) {
  const SequenceHandle sequence = Create(client_);
  ExpectRefused(CallTokens(client_, Make(Verb::kDecode, sequence), std::vector<TokenId>(1025, 5)),
                Code::kNoSpace, "1025");
}

TEST_F(ServiceTest, AReversedRangeIsRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission remove =
      Make(wire::RemoveRangeArgs{.sequence = sequence, .range = {Pos{7}, Pos{3}}});
  ExpectRefused(Call(client_, remove), Code::kInvalidArgument, "p0");
  EXPECT_EQ(Cells(sequence), 10u);
}

TEST_F(ServiceTest, AnOverlappingOrNegativeShiftIsRefusedAndChangesNothing) {
  const SequenceHandle sequence = Filled(client_, 10);
  for (const std::int64_t delta :
       {std::int64_t{-3}, std::int64_t{1} << 31, std::int64_t{-1} << 40}) {
    wire::Submission add = Make(Verb::kAdd, sequence);
    add.p0 = 5;
    add.argument = delta;
    EXPECT_EQ(Call(client_, add).code(), Code::kInvalidArgument) << delta;
  }
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->next_pos.value, 10);
}

TEST_F(ServiceTest, DividingByZeroIsRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  EXPECT_EQ(Call(client_, Make(Verb::kDivide, sequence)).code(), Code::kInvalidArgument);
}

TEST_F(ServiceTest, EditsOfASequenceThatIsBeingComputedAreBusyButForksAreNot) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission decode = Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{10}});
  ASSERT_EQ(CallTokens(client_, decode, {5, 6}).code(), Code::kOk);
  for (const Verb verb : {Verb::kRemoveRange, Verb::kClear, Verb::kAdd}) {
    ExpectRefused(Call(client_, Make(verb, sequence)), Code::kBusy, "is being computed by request");
  }
  wire::Submission fork = Make(wire::ForkArgs{.sequence = sequence});
  const ReceivedCompletion forked = Call(client_, fork);
  ASSERT_EQ(forked.code(), Code::kOk);
  EXPECT_EQ(Cells(forked.sequence()), 10u) << "what is committed";
  EXPECT_EQ(Call(client_, Make(Verb::kQuery, sequence)).code(), Code::kOk);
  RunDry();
  EXPECT_EQ(Cells(sequence), 12u);
}

TEST_F(ServiceTest, DroppingASequenceThatIsBeingComputedCancelsIt) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission decode = Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{10}});
  ASSERT_EQ(CallTokens(client_, decode, {5, 6}).code(), Code::kOk);
  EXPECT_EQ(Call(client_, Make(Verb::kDrop, sequence)).code(), Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].code(), Code::kCancelled);
}

TEST_F(ServiceTest, ASiblingReadsAndForksButChangesOnlyByForce) {
  const SequenceHandle sequence = Filled(client_, 10);
  EXPECT_EQ(Call(sibling_, Make(Verb::kQuery, sequence)).code(), Code::kOk);
  EXPECT_EQ(Call(sibling_, Make(Verb::kReadText, sequence)).code(), Code::kOk);
  ExpectRefused(Call(sibling_, Make(Verb::kClear, sequence)), Code::kPermission, "force");
  EXPECT_EQ(Cells(sequence), 10u);
  wire::Submission drop = Make(Verb::kDrop, sequence);
  drop.flags = wire::kFlagForce;
  EXPECT_EQ(Call(sibling_, drop).code(), Code::kOk);
}

TEST_F(ServiceTest, ForAnotherUidAPrivateSequenceDoesNotExist) {
  const SequenceHandle sequence = Filled(client_, 10);
  for (const Verb verb : {Verb::kQuery, Verb::kClear, Verb::kDrop, Verb::kReadText}) {
    wire::Submission submission = Make(verb, sequence);
    const ReceivedCompletion reply = Call(stranger_, submission);
    EXPECT_EQ(reply.code(), Code::kNotFound);
  }
  EXPECT_TRUE(Call(stranger_, Make(Verb::kList)).output.empty());
  EXPECT_EQ(Call(sibling_, Make(Verb::kList)).output.size(), sizeof(wire::SequenceEntry));
}

TEST_F(ServiceTest, AnotherUidReachesPublicSnapshotsButNoPrivateOnes) {
  const SequenceHandle sequence = Filled(client_, 10);
  ASSERT_EQ(CallText(client_, Make(Verb::kPublish, sequence), "mine").code(), Code::kOk);
  wire::Submission publish = Make(Verb::kPublish, sequence);
  publish.flags = wire::kFlagPublic;
  ASSERT_EQ(CallText(client_, publish, "ours").code(), Code::kOk);

  ExpectRefused(CallText(stranger_, Make(Verb::kAttach), "mine"), Code::kNotFound, "mine");
  const ReceivedCompletion attached = CallText(stranger_, Make(Verb::kAttach), "ours");
  ASSERT_EQ(attached.code(), Code::kOk) << Text(attached);
  EXPECT_EQ(attached.As<wire::ForkedReply>().cells, 10u);
  EXPECT_EQ(engine_.memory().sequences().Query(attached.sequence())->owner.id, OwnerOf(kOther));
  const auto seen =
      Call(stranger_, Make(Verb::kSnapshots)).As<wire::ListReply<wire::SnapshotEntry>>();
  ASSERT_EQ(seen.entries.size(), 1u);
  EXPECT_EQ(seen.entries[0].is_public, 1);
  EXPECT_EQ(seen.entries[0].is_own, 0) << "it is the client's";
  EXPECT_EQ(Call(client_, Make(Verb::kSnapshots)).output.size(), 2 * sizeof(wire::SnapshotEntry));

  ExpectRefused(CallText(stranger_, Make(Verb::kUnpublish), "ours"), Code::kPermission, "uid 1000");
  ExpectRefused(CallText(stranger_, Make(Verb::kUnpublish), "mine"), Code::kNotFound, "mine");
  EXPECT_EQ(CallText(sibling_, Make(Verb::kUnpublish), "ours").code(), Code::kOk);
}

TEST_F(ServiceTest, OnlyTheOwnerReplacesASnapshotAndOnlyByForce) {
  const SequenceHandle sequence = Filled(client_, 10);
  ASSERT_EQ(CallText(client_, Make(Verb::kPublish, sequence), "name").code(), Code::kOk);
  ExpectRefused(CallText(client_, Make(Verb::kPublish, sequence), "name"), Code::kExists, "force");
  wire::Submission replace = Make(Verb::kPublish, sequence);
  replace.flags = wire::kFlagForce;
  EXPECT_EQ(CallText(client_, replace, "name").code(), Code::kOk);
  const SequenceHandle theirs = Create(stranger_);
  replace.sequence = static_cast<std::uint64_t>(theirs);
  EXPECT_EQ(CallText(stranger_, replace, "name").code(), Code::kOk) << "private names are its own";
  replace.flags |= wire::kFlagPublic;
  EXPECT_EQ(CallText(stranger_, replace, "public").code(), Code::kOk);
  replace.sequence = static_cast<std::uint64_t>(sequence);
  ExpectRefused(CallText(client_, replace, "public"), Code::kExists,
                "the name of another public snapshot");
  replace.flags = wire::kFlagForce;
  EXPECT_EQ(CallText(client_, replace, "public").code(), Code::kOk) << "a private one beside it";
}

TEST_F(ServiceTest, UnsafeSnapshotNamesAreRefused) {
  const SequenceHandle sequence = Create(client_);
  for (const std::string& name :
       {std::string(), std::string("../x"), std::string("a/b"), std::string(".x"),
        std::string(64, 'n'), std::string("a\0b", 3), std::string("a b")}) {
    EXPECT_EQ(CallText(client_, Make(Verb::kPublish, sequence), name).code(),
              Code::kInvalidArgument)
        << name;
  }
}

TEST_F(ServiceTest, PublishedSequencesAreImmutable) {
  const SequenceHandle sequence = Filled(client_, 10);
  const ReceivedCompletion published = CallText(client_, Make(Verb::kPublish, sequence), "name");
  ASSERT_EQ(published.code(), Code::kOk);
  for (const Verb verb : {Verb::kClear, Verb::kRemoveRange, Verb::kDrop}) {
    wire::Submission submission = Make(verb, published.sequence());
    submission.flags = verb == Verb::kDrop ? wire::kFlagForce : 0;
    EXPECT_EQ(Call(client_, submission).code(), Code::kPermission);
  }
}

TEST_F(ServiceTest, KeepDropsTheOtherSequencesOfItsSessionOnly) {
  const SequenceHandle kept = Filled(client_, 10);
  const SequenceHandle other = Filled(client_, 10);
  const SequenceHandle siblings = Filled(sibling_, 10);
  ASSERT_EQ(Call(client_, Make(Verb::kKeep, kept)).code(), Code::kOk);
  EXPECT_TRUE(engine_.memory().sequences().Query(kept));
  EXPECT_FALSE(engine_.memory().sequences().Query(other));
  EXPECT_TRUE(engine_.memory().sequences().Query(siblings));
  ExpectRefused(Call(client_, Make(Verb::kKeep, siblings)), Code::kPermission,
                "does not belong to this session");
}

TEST_F(ServiceTest, SequencesOfAClosedSessionAreDroppedUnlessPublished) {
  const SequenceHandle mine = Filled(client_, 10);
  const SequenceHandle siblings = Filled(sibling_, 10);
  ASSERT_EQ(CallText(client_, Make(Verb::kPublish, mine), "stays").code(), Code::kOk);
  client_.session()->Close();
  service_.SessionClosed(client_.session()->id());
  EXPECT_FALSE(engine_.memory().sequences().Query(mine));
  EXPECT_TRUE(engine_.memory().sequences().Query(siblings));
  EXPECT_TRUE(engine_.memory().snapshots().Find("stays", OwnerOf(kOwn)));
}

TEST_F(ServiceTest, SequencesOfAnotherUidAreLimited) {
  for (int i = 0; i < 64; ++i) (void)Create(stranger_);
  ExpectRefused(Call(stranger_, Make(Verb::kCreate)), Code::kNoSpace, "holds 64 of 64");
  EXPECT_EQ(Call(client_, Make(Verb::kCreate)).code(), Code::kOk);
}

TEST_F(ServiceTest, ThePoolShareOfAnotherUidIsLimited) {
  // The pool has 32 blocks; a stranger's quota is a quarter, 8 blocks with 256 cells.
  const SequenceHandle sequence = Create(stranger_);
  (void)CallTokens(stranger_, Make(Verb::kDecode, sequence), std::vector<TokenId>(300, 5));
  RunDry();
  const std::vector<test::ReceivedCompletion> answers = stranger_.All();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers.back().code(), Code::kNoSpace);
  EXPECT_THAT(answers.back().text(),
              testing::HasSubstr("no room for 300 tokens: pool blocks: 10 more "
                                 "wanted, owner 1001 holds 0 of 8; limit: "
                                 "--other-pool-share"));
  EXPECT_EQ(Cells(sequence), 0u);
}

// Several decodes together need more cells than the pool has: each appends all of its tokens or
// none.
TEST_F(ServiceTest, ADecodeThatRunsOutOfCellsAppendsNothing) {
  // The pool has 1,024 cells, and each prompt takes several steps.
  std::vector<SequenceHandle> sequences;
  for (TokenId each = 0; each < 4; ++each) {
    sequences.push_back(Create(client_));
    (void)CallTokens(client_, Make(Verb::kDecode, sequences.back()),
                     std::vector<TokenId>(400, 5 + each));
  }
  RunDry();
  std::size_t refused = 0;
  for (const test::ReceivedCompletion& answer : client_.All()) {
    if (!answer.is_final()) continue;
    if (answer.code() != Code::kOk) {
      EXPECT_EQ(answer.code(), Code::kNoSpace) << answer.text();
    }
    refused += answer.code() != Code::kOk;
  }
  EXPECT_EQ(refused, 2u);
  std::size_t whole = 0;
  for (const SequenceHandle sequence : sequences) {
    const std::uint32_t cells = Cells(sequence);
    EXPECT_TRUE(cells == 0 || cells == 400) << cells;
    whole += cells == 400;
  }
  EXPECT_EQ(whole, 2u);
}

TEST_F(ServiceTest, RequestsInFlightOfAnotherUidAreLimited) {
  wire::Submission ping = Make(Verb::kPing);
  for (ping.request = 1; ping.request <= 256; ++ping.request) {
    ReceivedSubmission received = stranger_.Send(ping);
    const Outcome outcome = service_.Handle(stranger_.session(), received);
    EXPECT_EQ(std::get<WireReply>(outcome).code(), Code::kOk);
  }
  ReceivedSubmission one_more = stranger_.Send(ping);
  const Outcome outcome = service_.Handle(stranger_.session(), one_more);
  const WireReply& reply = std::get<WireReply>(outcome);
  ExpectRefused({reply.completion, reply.output}, Code::kNoSpace, "requests in flight");
}

TEST_F(ServiceTest, PositionsThatWouldOverflowAreRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission add = Make(
      wire::AddArgs{.sequence = sequence, .delta = std::numeric_limits<std::int32_t>::max() - 12});
  const ReceivedCompletion shifted = Call(client_, add);
  if (shifted.code() != Code::kOk) return;  // a refusal of the shift is also correct
  wire::Submission decode = Make(
      wire::DecodeArgs{.sequence = sequence,
                       .pos = Pos{engine_.memory().sequences().Query(sequence)->next_pos.value}});
  ExpectRefused(CallTokens(client_, decode, std::vector<TokenId>(100, 5)), Code::kInvalidArgument,
                "last position");
}

TEST_F(ServiceTest, TextIsTokenizedAndDetokenized) {
  const ReceivedCompletion tokens = CallText(client_, Make(Verb::kTokenize), "abc");
  ASSERT_EQ(tokens.code(), Code::kOk) << Text(tokens);
  EXPECT_EQ(tokens.As<wire::TokenizeReply>().count, 3u);
  EXPECT_EQ(Text(Call(client_, Make(Verb::kDetokenize), tokens.output)), "abc");
}

TEST_F(ServiceTest, ReadTokensReturnsCellsWithTheirPositions) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission read = Make(wire::ReadTokensArgs{.sequence = sequence, .first_cell = 8});
  const ReceivedCompletion reply = Call(client_, read);
  const auto tokens = reply.As<wire::ReadTokensReply>();
  ASSERT_EQ(tokens.cells.size(), 2u);
  EXPECT_EQ(tokens.cells[0].token, 5);
  EXPECT_EQ(tokens.cells[0].pos, 8);
  EXPECT_EQ(tokens.cells[1].token, 5);
  EXPECT_EQ(tokens.cells[1].pos, 9);
  read = Make(wire::ReadTokensArgs{.sequence = sequence, .first_cell = 11});
  ExpectRefused(Call(client_, read), Code::kInvalidArgument, "first_cell");
}

TEST_F(ServiceTest, InfoDescribesTheModelThePoolAndTheProcess) {
  const ReceivedCompletion reply = Call(client_, Make(Verb::kInfo));
  const wire::InfoReply info = reply.As<wire::OneReply<wire::InfoReply>>().record;
  EXPECT_STREQ(info.model_name, "fake");
  EXPECT_EQ(info.pool_cells, 1024u);
  EXPECT_EQ(info.vocab_size, 64u);
  EXPECT_EQ(info.has_tokenizer, 1u);
  EXPECT_GT(info.resident_anonymous_bytes, 0u);
  EXPECT_GT(info.descriptors, 0u);
  EXPECT_GT(info.mappings, 0u);
}

TEST_F(ServiceTest, InfoCountsRequestsAndTheListShowsWhatComputesOnEachSequence) {
  const SequenceHandle sequence = Create(client_);
  (void)CallTokens(client_, Make(Verb::kDecode, sequence), std::vector<TokenId>(300, 5));
  const auto info = [this] {
    return Call(stranger_, Make(Verb::kInfo)).As<wire::OneReply<wire::InfoReply>>().record;
  };
  const auto entry = [&] {
    return Call(client_, Make(Verb::kQuery, sequence)).As<wire::QueryReply>().entry;
  };
  EXPECT_EQ(info().requests_waiting, 1u);
  EXPECT_EQ(entry().request_state, wire::kRequestWaits);
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(info().requests_waiting, 0u);
  EXPECT_EQ(info().requests_computing, 1u);
  EXPECT_EQ(entry().request_state, wire::kRequestComputes);
  EXPECT_EQ(entry().request_tokens, 300u);
  EXPECT_GT(entry().request_tokens_done, 0u);
  EXPECT_LT(entry().request_tokens_done, 300u);
  RunDry();
  EXPECT_EQ(info().requests_computing, 0u);
  EXPECT_EQ(entry().request_state, wire::kRequestNone);
}

TEST_F(ServiceTest, CancelSaysWhetherItFoundTheRequest) {
  wire::Submission cancel = Make(wire::CancelArgs{.request = RequestId{999}});
  EXPECT_FALSE(Call(client_, cancel).As<wire::CancelReply>().was_found);
}

class NoTokenizerTest : public ServiceTest {
 protected:
  NoTokenizerTest() : ServiceTest({.has_tokenizer = false}) {}
};

TEST_F(NoTokenizerTest, TextVerbsSayThatThereIsNoTokenizerAndTokensStillWork) {
  EXPECT_EQ(CallText(client_, Make(Verb::kTokenize), "abc").code(), Code::kNoTokenizer);
  EXPECT_EQ(CallTokens(client_, Make(Verb::kDetokenize), {5}).code(), Code::kNoTokenizer);
  const SequenceHandle sequence = Filled(client_, 4);
  EXPECT_EQ(Call(client_, Make(Verb::kReadText, sequence)).code(), Code::kNoTokenizer);
  EXPECT_EQ(Cells(sequence), 4u);
}

}  // namespace
}  // namespace kvd
