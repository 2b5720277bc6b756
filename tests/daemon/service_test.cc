#include "daemon/service.h"

#include <limits>

#include "daemon/owner_of_uid.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::kOther;
using test::kOwn;
using test::ServiceTest;
using ::testing::HasSubstr;
using wire::Verb;

TEST_F(ServiceTest, PingAnswersTheSameBytes) {
  EXPECT_EQ(Text(CallText(client_, Make(Verb::kPing), "hello")), "hello");
}

TEST_F(ServiceTest, UnknownAndStaleHandlesAreNotFoundByEveryVerb) {
  const SequenceHandle stale = Create(client_);
  ASSERT_EQ(Call(client_, Make(Verb::kDrop, stale)).code, Code::kOk);
  for (const SequenceHandle handle :
       {stale, MakeHandle(0xffffffffu, 1), static_cast<SequenceHandle>(~std::uint64_t{0})}) {
    for (const Verb verb : {Verb::kDrop, Verb::kRemoveRange, Verb::kKeep, Verb::kClear, Verb::kAdd,
                            Verb::kQuery, Verb::kReadTokens, Verb::kReadText}) {
      ExpectRefused(Call(client_, Make(verb, handle)), Code::kNotFound, "no such sequence");
    }
    wire::Submission fork = Make(Verb::kFork, handle);
    fork.p0 = -1;
    fork.argument = 1;
    ExpectRefused(Call(client_, fork), Code::kNotFound, "no such sequence");
    ExpectRefused(CallTokens(client_, Make(Verb::kDecode, handle), {5}), Code::kNotFound,
                  "no such sequence");
  }
}

TEST_F(ServiceTest, ForkOfZeroOrAMillionIsRefusedAndMakesNothing) {
  const SequenceHandle sequence = Filled(client_, 40);
  const std::uint32_t live = engine_.memory().Usage().live_sequences;
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1'000'000},
                                   std::numeric_limits<std::int64_t>::max()}) {
    wire::Submission fork = Make(Verb::kFork, sequence);
    fork.p0 = -1;
    fork.argument = count;
    const Reply reply = Call(client_, fork);
    ExpectRefused(reply, Code::kInvalidArgument, std::to_string(count).c_str());
  }
  EXPECT_EQ(engine_.memory().Usage().live_sequences, live);
}

TEST_F(ServiceTest, ForkReportsHandlesCellsAndNanoseconds) {
  const SequenceHandle sequence = Filled(client_, 40);
  wire::Submission fork = Make(Verb::kFork, sequence);
  fork.p0 = 33;
  fork.argument = 3;
  const Reply reply = Call(client_, fork);
  ASSERT_EQ(reply.code, Code::kOk) << Text(reply);
  EXPECT_EQ(reply.value1, 33);
  EXPECT_GT(reply.value0, 0);
  ASSERT_EQ(reply.output.size(), 3 * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < 3; ++i) {
    SequenceHandle handle{};
    std::memcpy(&handle, reply.output.data() + i * sizeof handle, sizeof handle);
    EXPECT_EQ(Cells(handle), 33u);
  }
}

TEST_F(ServiceTest, TokensOutsideTheVocabularyAreNamedByIndexAndNothingIsComputed) {
  const SequenceHandle sequence = Create(client_);
  for (const TokenId bad : {64, -1, std::numeric_limits<TokenId>::max()}) {
    const Reply reply = CallTokens(client_, Make(Verb::kDecode, sequence), {5, 6, bad});
    ExpectRefused(reply, Code::kInvalidArgument, std::to_string(bad).c_str());
    EXPECT_THAT(Text(reply), HasSubstr("2"));
  }
  ExpectRefused(CallTokens(client_, Make(Verb::kDecode, sequence), {}), Code::kInvalidArgument,
                "payload");
  RunDry();
  EXPECT_EQ(Cells(sequence), 0u);
}

TEST_F(ServiceTest, AnyPositionButTheNextIsRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  for (const std::int32_t pos : {0, 9, 11, -5, std::numeric_limits<std::int32_t>::max()}) {
    wire::Submission decode = Make(Verb::kDecode, sequence);
    decode.p0 = pos;
    EXPECT_EQ(CallTokens(client_, decode, {5}).code, Code::kInvalidArgument) << pos;
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
  wire::Submission remove = Make(Verb::kRemoveRange, sequence);
  remove.p0 = 7;
  remove.p1 = 3;
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
    EXPECT_EQ(Call(client_, add).code, Code::kInvalidArgument) << delta;
  }
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->next_pos.value, 10);
}

TEST_F(ServiceTest, DividingByZeroIsRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  EXPECT_EQ(Call(client_, Make(Verb::kDivide, sequence)).code, Code::kInvalidArgument);
}

TEST_F(ServiceTest, EditsOfASequenceThatIsBeingComputedAreBusyButForksAreNot) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission decode = Make(Verb::kDecode, sequence);
  decode.p0 = 10;
  ASSERT_EQ(CallTokens(client_, decode, {5, 6}).code, Code::kOk);
  for (const Verb verb : {Verb::kRemoveRange, Verb::kClear, Verb::kAdd}) {
    ExpectRefused(Call(client_, Make(verb, sequence)), Code::kBusy, "is being computed by request");
  }
  wire::Submission fork = Make(Verb::kFork, sequence);
  fork.p0 = -1;
  fork.argument = 1;
  const Reply forked = Call(client_, fork);
  ASSERT_EQ(forked.code, Code::kOk);
  EXPECT_EQ(Cells(forked.sequence), 10u) << "what is committed";
  EXPECT_EQ(Call(client_, Make(Verb::kQuery, sequence)).code, Code::kOk);
  RunDry();
  EXPECT_EQ(Cells(sequence), 12u);
}

TEST_F(ServiceTest, DroppingASequenceThatIsBeingComputedCancelsIt) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission decode = Make(Verb::kDecode, sequence);
  decode.p0 = 10;
  ASSERT_EQ(CallTokens(client_, decode, {5, 6}).code, Code::kOk);
  EXPECT_EQ(Call(client_, Make(Verb::kDrop, sequence)).code, Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].code(), Code::kCancelled);
}

TEST_F(ServiceTest, ASiblingReadsAndForksButChangesOnlyByForce) {
  const SequenceHandle sequence = Filled(client_, 10);
  EXPECT_EQ(Call(sibling_, Make(Verb::kQuery, sequence)).code, Code::kOk);
  EXPECT_EQ(Call(sibling_, Make(Verb::kReadText, sequence)).code, Code::kOk);
  ExpectRefused(Call(sibling_, Make(Verb::kClear, sequence)), Code::kPermission, "force");
  EXPECT_EQ(Cells(sequence), 10u);
  wire::Submission drop = Make(Verb::kDrop, sequence);
  drop.flags = wire::kFlagForce;
  EXPECT_EQ(Call(sibling_, drop).code, Code::kOk);
}

TEST_F(ServiceTest, AStrangerCannotTellAPrivateSequenceFromNone) {
  const SequenceHandle sequence = Filled(client_, 10);
  for (const Verb verb : {Verb::kQuery, Verb::kClear, Verb::kDrop, Verb::kReadText}) {
    wire::Submission submission = Make(verb, sequence);
    const Reply reply = Call(stranger_, submission);
    EXPECT_EQ(reply.code, Code::kNotFound);
  }
  EXPECT_TRUE(Call(stranger_, Make(Verb::kList)).output.empty());
  EXPECT_EQ(Call(sibling_, Make(Verb::kList)).output.size(), sizeof(wire::SequenceEntry));
}

TEST_F(ServiceTest, PublicSnapshotsReachStrangersAndPrivateOnesDoNot) {
  const SequenceHandle sequence = Filled(client_, 10);
  ASSERT_EQ(CallText(client_, Make(Verb::kPublish, sequence), "mine").code, Code::kOk);
  wire::Submission publish = Make(Verb::kPublish, sequence);
  publish.flags = wire::kFlagPublic;
  ASSERT_EQ(CallText(client_, publish, "ours").code, Code::kOk);

  ExpectRefused(CallText(stranger_, Make(Verb::kAttach), "mine"), Code::kNotFound, "mine");
  const Reply attached = CallText(stranger_, Make(Verb::kAttach), "ours");
  ASSERT_EQ(attached.code, Code::kOk) << Text(attached);
  EXPECT_EQ(attached.value1, 10);
  EXPECT_EQ(engine_.memory().sequences().Query(attached.sequence)->owner.id, OwnerOf(kOther));
  EXPECT_EQ(Call(stranger_, Make(Verb::kSnapshots)).output.size(), sizeof(wire::SnapshotEntry));
  EXPECT_EQ(Call(client_, Make(Verb::kSnapshots)).output.size(), 2 * sizeof(wire::SnapshotEntry));

  ExpectRefused(CallText(stranger_, Make(Verb::kUnpublish), "ours"), Code::kPermission, "uid 1000");
  ExpectRefused(CallText(stranger_, Make(Verb::kUnpublish), "mine"), Code::kNotFound, "mine");
  EXPECT_EQ(CallText(sibling_, Make(Verb::kUnpublish), "ours").code, Code::kOk);
}

TEST_F(ServiceTest, ASnapshotsNameIsTakenOnceAndReplacedOnlyByForceAndItsOwner) {
  const SequenceHandle sequence = Filled(client_, 10);
  ASSERT_EQ(CallText(client_, Make(Verb::kPublish, sequence), "name").code, Code::kOk);
  ExpectRefused(CallText(client_, Make(Verb::kPublish, sequence), "name"), Code::kExists, "force");
  wire::Submission replace = Make(Verb::kPublish, sequence);
  replace.flags = wire::kFlagForce;
  EXPECT_EQ(CallText(client_, replace, "name").code, Code::kOk);
  const SequenceHandle theirs = Create(stranger_);
  replace.sequence = static_cast<std::uint64_t>(theirs);
  EXPECT_EQ(CallText(stranger_, replace, "name").code, Code::kOk) << "private names are its own";
  replace.flags |= wire::kFlagPublic;
  EXPECT_EQ(CallText(stranger_, replace, "public").code, Code::kOk);
  replace.sequence = static_cast<std::uint64_t>(sequence);
  ExpectRefused(CallText(client_, replace, "public"), Code::kExists,
                "the name of another public snapshot");
  replace.flags = wire::kFlagForce;
  EXPECT_EQ(CallText(client_, replace, "public").code, Code::kOk) << "a private one beside it";
}

TEST_F(ServiceTest, UnsafeSnapshotNamesAreRefused) {
  const SequenceHandle sequence = Create(client_);
  for (const std::string& name :
       {std::string(), std::string("../x"), std::string("a/b"), std::string(".x"),
        std::string(64, 'n'), std::string("a\0b", 3), std::string("a b")}) {
    EXPECT_EQ(CallText(client_, Make(Verb::kPublish, sequence), name).code, Code::kInvalidArgument)
        << name;
  }
}

TEST_F(ServiceTest, PublishedSequencesAreImmutable) {
  const SequenceHandle sequence = Filled(client_, 10);
  const Reply published = CallText(client_, Make(Verb::kPublish, sequence), "name");
  ASSERT_EQ(published.code, Code::kOk);
  for (const Verb verb : {Verb::kClear, Verb::kRemoveRange, Verb::kDrop}) {
    wire::Submission submission = Make(verb, published.sequence);
    submission.flags = verb == Verb::kDrop ? wire::kFlagForce : 0;
    EXPECT_EQ(Call(client_, submission).code, Code::kPermission);
  }
}

TEST_F(ServiceTest, KeepDropsTheOtherSequencesOfItsSessionOnly) {
  const SequenceHandle kept = Filled(client_, 10);
  const SequenceHandle other = Filled(client_, 10);
  const SequenceHandle siblings = Filled(sibling_, 10);
  ASSERT_EQ(Call(client_, Make(Verb::kKeep, kept)).code, Code::kOk);
  EXPECT_TRUE(engine_.memory().sequences().Query(kept));
  EXPECT_FALSE(engine_.memory().sequences().Query(other));
  EXPECT_TRUE(engine_.memory().sequences().Query(siblings));
  ExpectRefused(Call(client_, Make(Verb::kKeep, siblings)), Code::kPermission,
                "does not belong to this session");
}

TEST_F(ServiceTest, WhatASessionLeavesBehindGoesButPublishedOnesStay) {
  const SequenceHandle mine = Filled(client_, 10);
  const SequenceHandle siblings = Filled(sibling_, 10);
  ASSERT_EQ(CallText(client_, Make(Verb::kPublish, mine), "stays").code, Code::kOk);
  client_.session()->Close();
  service_.SessionClosed(client_.session()->id());
  EXPECT_FALSE(engine_.memory().sequences().Query(mine));
  EXPECT_TRUE(engine_.memory().sequences().Query(siblings));
  EXPECT_TRUE(engine_.memory().snapshots().Find("stays", OwnerOf(kOwn)));
}

TEST_F(ServiceTest, AStrangersSequencesAreLimited) {
  for (int i = 0; i < 64; ++i) (void)Create(stranger_);
  ExpectRefused(Call(stranger_, Make(Verb::kCreate)), Code::kNoSpace, "holds 64 of 64");
  EXPECT_EQ(Call(client_, Make(Verb::kCreate)).code, Code::kOk);
}

TEST_F(ServiceTest, AStrangersShareOfThePoolIsLimited) {
  // The pool has 32 blocks; a stranger's quota is a quarter, 8 blocks with 256 cells.
  const SequenceHandle sequence = Create(stranger_);
  (void)CallTokens(stranger_, Make(Verb::kDecode, sequence), std::vector<TokenId>(300, 5));
  RunDry();
  const std::vector<test::ReceivedCompletion> answers = stranger_.All();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers.back().code(), Code::kNoSpace);
  EXPECT_THAT(answers.back().text(), testing::HasSubstr("pool blocks: 10 more wanted, owner 1001"));
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

TEST_F(ServiceTest, AStrangersRequestsInFlightAreLimited) {
  wire::Submission ping = Make(Verb::kPing);
  for (ping.request = 1; ping.request <= 256; ++ping.request) {
    ReceivedSubmission received = stranger_.Send(ping);
    const Outcome outcome = service_.Handle(stranger_.session(), received);
    EXPECT_EQ(std::get<Reply>(outcome).code, Code::kOk);
  }
  ReceivedSubmission one_more = stranger_.Send(ping);
  const Outcome outcome = service_.Handle(stranger_.session(), one_more);
  ExpectRefused(std::get<Reply>(outcome), Code::kNoSpace, "requests in flight");
}

TEST_F(ServiceTest, PositionsThatWouldOverflowAreRefused) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission add = Make(Verb::kAdd, sequence);
  add.p0 = 0;
  add.argument = std::numeric_limits<std::int32_t>::max() - 12;
  const Reply shifted = Call(client_, add);
  if (shifted.code != Code::kOk) return;  // a refusal of the shift is also correct
  wire::Submission decode = Make(Verb::kDecode, sequence);
  decode.p0 = engine_.memory().sequences().Query(sequence)->next_pos.value;
  ExpectRefused(CallTokens(client_, decode, std::vector<TokenId>(100, 5)), Code::kInvalidArgument,
                "last position");
}

TEST_F(ServiceTest, TextGoesToTokensAndBack) {
  const Reply tokens = CallText(client_, Make(Verb::kTokenize), "abc");
  ASSERT_EQ(tokens.code, Code::kOk) << Text(tokens);
  EXPECT_EQ(tokens.value0, 3);
  EXPECT_EQ(Text(Call(client_, Make(Verb::kDetokenize), tokens.output)), "abc");
}

TEST_F(ServiceTest, ReadTokensGivesCellsWithTheirPositions) {
  const SequenceHandle sequence = Filled(client_, 10);
  wire::Submission read = Make(Verb::kReadTokens, sequence);
  read.p0 = 8;
  read.argument = -1;
  const Reply reply = Call(client_, read);
  ASSERT_EQ(reply.output.size(), 2 * 2 * sizeof(std::int32_t));
  std::int32_t values[4];
  std::memcpy(values, reply.output.data(), sizeof values);
  EXPECT_THAT(values, ::testing::ElementsAre(5, 8, 5, 9));
  read.p0 = 11;
  ExpectRefused(Call(client_, read), Code::kInvalidArgument, "first_cell");
}

TEST_F(ServiceTest, InfoTellsTheModelThePoolAndTheProcess) {
  const Reply reply = Call(client_, Make(Verb::kInfo));
  ASSERT_EQ(reply.output.size(), sizeof(wire::InfoReply));
  wire::InfoReply info;
  std::memcpy(&info, reply.output.data(), sizeof info);
  EXPECT_STREQ(info.model_name, "fake");
  EXPECT_EQ(info.pool_cells, 1024u);
  EXPECT_EQ(info.vocab_size, 64u);
  EXPECT_EQ(info.has_tokenizer, 1u);
  EXPECT_GT(info.resident_anonymous_bytes, 0u);
  EXPECT_GT(info.descriptors, 0u);
  EXPECT_GT(info.mappings, 0u);
}

TEST_F(ServiceTest, CancelSaysWhetherTheRequestWasThere) {
  wire::Submission cancel = Make(Verb::kCancel);
  cancel.argument = 999;
  EXPECT_EQ(Call(client_, cancel).value0, 0);
}

struct BadGenerate {
  const char* name;
  void (*spoil)(wire::GenerateRequest&);
};
class ServiceGenerateTest : public ServiceTest,
                            public ::testing::WithParamInterface<BadGenerate> {};

TEST_P(ServiceGenerateTest, IsRefusedAndNothingIsComputed) {
  const SequenceHandle sequence = Create(client_);
  wire::GenerateRequest request;
  request.params.predict_max = 4;
  request.params.sampling = kPlainSampling;
  request.tokens = {5, 6};
  GetParam().spoil(request);
  std::vector<std::string_view> stops(request.stops.begin(), request.stops.end());
  std::vector<std::string_view> breakers(request.breakers.begin(), request.breakers.end());
  const wire::GenerateView view{.params = request.params,
                                .tokens = request.tokens,
                                .biases = request.biases,
                                .stops = stops,
                                .breakers = breakers};
  std::vector<std::byte> payload(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, payload);
  wire::Submission generate = Make(Verb::kGenerate, sequence);
  generate.p0 = -1;
  const Reply reply = Call(client_, generate, payload);
  EXPECT_EQ(reply.code, Code::kInvalidArgument) << Text(reply);
  EXPECT_FALSE(Text(reply).empty());
  RunDry();
  EXPECT_EQ(Cells(sequence), 0u);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
INSTANTIATE_TEST_SUITE_P(
    All, ServiceGenerateTest,
    ::testing::Values(
        BadGenerate{"nan_temperature",
                    [](wire::GenerateRequest& r) { r.params.sampling.temperature = kNan; }},
        BadGenerate{"negative_temperature",
                    [](wire::GenerateRequest& r) { r.params.sampling.temperature = -1; }},
        BadGenerate{"negative_top_k",
                    [](wire::GenerateRequest& r) { r.params.sampling.top_k = -1; }},
        BadGenerate{"top_p_0", [](wire::GenerateRequest& r) { r.params.sampling.top_p = 0; }},
        BadGenerate{"top_p_2", [](wire::GenerateRequest& r) { r.params.sampling.top_p = 2; }},
        BadGenerate{"nan_min_p", [](wire::GenerateRequest& r) { r.params.sampling.min_p = kNan; }},
        BadGenerate{"typical_p_0",
                    [](wire::GenerateRequest& r) { r.params.sampling.typical_p = 0; }},
        BadGenerate{"repeat_penalty_0",
                    [](wire::GenerateRequest& r) { r.params.sampling.repeat_penalty = 0; }},
        BadGenerate{"presence_3",
                    [](wire::GenerateRequest& r) { r.params.sampling.presence_penalty = 3; }},
        BadGenerate{"frequency_nan",
                    [](wire::GenerateRequest& r) { r.params.sampling.frequency_penalty = kNan; }},
        BadGenerate{"logprobs_65", [](wire::GenerateRequest& r) { r.params.logprob_count = 65; }},
        BadGenerate{"unknown_flag", [](wire::GenerateRequest& r) { r.params.flags = 1u << 9; }},
        BadGenerate{"predict_minus_2", [](wire::GenerateRequest& r) { r.params.predict_max = -2; }},
        BadGenerate{"no_tokens", [](wire::GenerateRequest& r) { r.tokens.clear(); }},
        BadGenerate{"token_64", [](wire::GenerateRequest& r) { r.tokens = {64}; }},
        BadGenerate{"bias_1001", [](wire::GenerateRequest& r) { r.biases = {{5, 1001.0f}}; }},
        BadGenerate{"bias_nan", [](wire::GenerateRequest& r) { r.biases = {{5, kNan}}; }},
        BadGenerate{"bias_token", [](wire::GenerateRequest& r) { r.biases = {{64, 1.0f}}; }},
        BadGenerate{"empty_stop", [](wire::GenerateRequest& r) { r.stops = {""}; }},
        BadGenerate{"long_stop",
                    [](wire::GenerateRequest& r) { r.stops = {std::string(257, 'x')}; }},
        BadGenerate{"malformed_stop", [](wire::GenerateRequest& r) { r.stops = {"\xff"}; }}),
    [](const auto& tested) { return std::string(tested.param.name); });

class NoTokenizerTest : public ServiceTest {
 protected:
  NoTokenizerTest() : ServiceTest({.has_tokenizer = false}) {}
};

TEST_F(NoTokenizerTest, TextVerbsSayThatThereIsNoTokenizerAndTokensStillWork) {
  EXPECT_EQ(CallText(client_, Make(Verb::kTokenize), "abc").code, Code::kNoTokenizer);
  EXPECT_EQ(CallTokens(client_, Make(Verb::kDetokenize), {5}).code, Code::kNoTokenizer);
  const SequenceHandle sequence = Filled(client_, 4);
  EXPECT_EQ(Call(client_, Make(Verb::kReadText, sequence)).code, Code::kNoTokenizer);
  EXPECT_EQ(Cells(sequence), 4u);
}

std::vector<std::byte> TokenLists(const std::vector<std::vector<TokenId>>& texts) {
  const std::vector<std::span<const TokenId>> views(texts.begin(), texts.end());
  std::vector<std::byte> payload(wire::TokenListsBytes(views));
  wire::EncodeTokenLists(views, payload);
  return payload;
}

std::vector<std::byte> Texts(const std::vector<std::string_view>& texts) {
  std::vector<std::byte> payload(wire::TextsBytes(texts));
  wire::EncodeTexts(texts, payload);
  return payload;
}

wire::Submission MakeEmbed(std::int64_t pooling = -1, std::uint16_t flags = 0) {
  wire::Submission embed{};
  embed.verb = static_cast<std::uint16_t>(Verb::kEmbed);
  embed.argument = pooling;
  embed.flags = flags;
  return embed;
}

TEST_F(ServiceTest, AModelThatReadsNoTextsEmbedsAndRanksNothing) {
  ExpectRefused(Call(client_, MakeEmbed(), TokenLists({{5}})), Code::kUnsupported,
                "does not embed texts");
  ExpectRefused(Call(client_, Make(Verb::kRank), Texts({"a", "b"})), Code::kUnsupported,
                "does not embed texts");
}

class EncoderServiceTest : public ServiceTest {
 protected:
  EncoderServiceTest() : ServiceTest({.is_encoder = true}) {}

  // Submits `times` embed requests, runs the scheduler until it is idle and returns its answers.
  std::vector<test::ReceivedCompletion> Embed(std::uint16_t flags, int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(Call(client_, MakeEmbed(-1, flags), TokenLists({{5, 6}})).code, Code::kOk);
    }
    RunDry();
    return client_.All();
  }
};

TEST_F(EncoderServiceTest, EmbeddingsComeAsTheyAreOrNormalised) {
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{wire::kFlagNormalize}}) {
    const auto answers = Embed(flags, 1);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].completion.value0, 1);
    EXPECT_EQ(answers[0].completion.value1, 2);
    ASSERT_EQ(answers[0].output.size(), 2 * sizeof(float));
    float row[2];
    std::memcpy(row, answers[0].output.data(), sizeof row);
    EXPECT_EQ(row[0], flags == 0 ? 3.0f : 0.6f);
    EXPECT_EQ(row[1], flags == 0 ? 4.0f : 0.8f);
  }
}

TEST_F(EncoderServiceTest, SeveralTextsMayBeInFlight) { EXPECT_EQ(Embed(0, 3).size(), 3u); }

TEST_F(EncoderServiceTest, WhatNeedsADecoderIsRefusedByName) {
  const SequenceHandle sequence = Create(client_);
  ExpectRefused(CallTokens(client_, Make(Verb::kDecode, sequence), {5}), Code::kUnsupported,
                "no decoder");
  wire::Submission generate = Make(Verb::kGenerate, sequence);
  const std::vector<std::byte> params(sizeof(wire::GenerateParams));
  ExpectRefused(Call(client_, generate, params), Code::kUnsupported, "no decoder");
}

class CrossServiceTest : public ServiceTest {
 protected:
  CrossServiceTest() : ServiceTest({.has_cross_attention = true}) {}

  // Submits an encode request for the sequence and returns the scheduler's answer.
  wire::Completion Encode(SequenceHandle sequence, const std::vector<TokenId>& tokens) {
    EXPECT_EQ(CallTokens(client_, Make(Verb::kEncode, sequence), tokens).code, Code::kOk);
    RunDry();
    const auto answers = client_.All();
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? wire::Completion{} : answers.front().completion;
  }
};

TEST_F(CrossServiceTest, ATextIsEncodedOnceBeforeTheFirstTokenAndForksShareIt) {
  const SequenceHandle sequence = Create(client_);
  const wire::Completion early = [&] {
    wire::Submission decode = Make(Verb::kDecode, sequence);
    EXPECT_EQ(CallTokens(client_, decode, {5}).code, Code::kOk);
    RunDry();
    return client_.All().front().completion;
  }();
  EXPECT_EQ(static_cast<Code>(early.code), Code::kInvalidArgument);

  const wire::Completion encoded = Encode(sequence, {5, 6, 7});
  EXPECT_EQ(static_cast<Code>(encoded.code), Code::kOk);
  EXPECT_EQ(encoded.value0, 3);
  EXPECT_EQ(encoded.value1, test::FakeEngine::kBos);
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->cross_cells, 3u);
  EXPECT_EQ(static_cast<Code>(Encode(sequence, {5}).code), Code::kExists);

  wire::Submission fork = Make(Verb::kFork, sequence);
  fork.p0 = -1;
  fork.argument = 1;
  ASSERT_EQ(Call(client_, fork).code, Code::kOk);
  for (const SequenceInfo& info : engine_.memory().sequences().List())
    EXPECT_EQ(info.cross_cells, 3u);
}

TEST_F(CrossServiceTest, TextsThatAreNoneAreRefused) {
  const SequenceHandle sequence = Create(client_);
  ExpectRefused(CallTokens(client_, Make(Verb::kEncode, sequence), {64}), Code::kInvalidArgument,
                "64");
  ExpectRefused(CallTokens(client_, Make(Verb::kEncode, SequenceHandle{99}), {5}), Code::kNotFound,
                "99");
}

TEST_F(ServiceTest, AModelWithoutAnEncoderEncodesNothing) {
  ExpectRefused(CallTokens(client_, Make(Verb::kEncode, Create(client_)), {5}), Code::kUnsupported,
                "does not have both an encoder and a decoder");
}

TEST_F(EncoderServiceTest, SeveralTextsOfARequestHaveARowEach) {
  ASSERT_EQ(Call(client_, MakeEmbed(), TokenLists({{5, 6}, {7}, {8, 9, 10}})).code, Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].completion.value0, 3);
  EXPECT_EQ(answers[0].completion.value1, 2);
  EXPECT_EQ(answers[0].output.size(), 6 * sizeof(float));
}

TEST_F(EncoderServiceTest, TextsThatTheModelCannotReadAreRefusedByTheirIndex) {
  ExpectRefused(Call(client_, MakeEmbed(), TokenLists({{5}, {64}})), Code::kInvalidArgument,
                "text 1: ");
  ExpectRefused(Call(client_, MakeEmbed(), TokenLists({{5}, std::vector<TokenId>(4097, 5)})),
                Code::kInvalidArgument, "text 1: tokens: 4097, the model reads at most 4096");
}

TEST_F(EncoderServiceTest, RankingNeedsAClassifier) {
  ExpectRefused(Call(client_, MakeEmbed(4), TokenLists({{5}})), Code::kUnsupported,
                "no classifier");
  ExpectRefused(Call(client_, Make(Verb::kRank), Texts({"a", "b"})), Code::kUnsupported,
                "no classifier");
}

class RankServiceTest : public ServiceTest {
 protected:
  explicit RankServiceTest(bool has_tokenizer = true)
      : ServiceTest({.has_tokenizer = has_tokenizer, .is_encoder = true, .has_classifier = true}) {}
};

TEST_F(RankServiceTest, EachDocumentHasAScore) {
  ASSERT_EQ(Call(client_, Make(Verb::kRank), Texts({"ab", "a", "b", "ba"})).code, Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_EQ(static_cast<Code>(answers[0].completion.code), Code::kOk);
  EXPECT_GE(answers[0].completion.value0, 3 * 3);  // tokens
  std::vector<float> scores(answers[0].output.size() / sizeof(float));
  std::memcpy(scores.data(), answers[0].output.data(), answers[0].output.size());
  EXPECT_EQ(scores, std::vector<float>(3, 3.0f));
}

TEST_F(RankServiceTest, TextsThatAreNoneEndTheRequestByName) {
  const auto message = [&](const std::vector<std::string_view>& texts) {
    EXPECT_EQ(Call(client_, Make(Verb::kRank), Texts(texts)).code, Code::kOk);
    RunDry();
    const auto answers = client_.All();
    EXPECT_EQ(answers.size(), 1u);
    if (answers.empty()) return std::string();
    EXPECT_EQ(static_cast<Code>(answers[0].completion.code), Code::kInvalidArgument);
    const auto& output = answers[0].output;
    return std::string(reinterpret_cast<const char*>(output.data()), output.size());
  };
  EXPECT_THAT(message({"\xff", "a"}), HasSubstr("query: not valid UTF-8"));
  EXPECT_THAT(message({"a", "b", "\xff"}), HasSubstr("document 1: not valid UTF-8"));
  EXPECT_THAT(message({"a", std::string(9000, 'b')}), HasSubstr("document 0: tokens: "));
}

TEST_F(RankServiceTest, ACancelledRankHoldsNothing) {
  ASSERT_EQ(Call(client_, Make(Verb::kRank), Texts({"ab", "a", "b"})).code, Code::kOk);
  wire::Submission cancel = Make(Verb::kCancel);
  cancel.argument = static_cast<std::int64_t>(last_request_);
  ASSERT_EQ(Call(client_, cancel).code, Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(engine_.open_texts(), 0u);
}

class RankWithoutTokenizerTest : public RankServiceTest {
 protected:
  RankWithoutTokenizerTest() : RankServiceTest(false) {}
};

TEST_F(RankWithoutTokenizerTest, RankingNeedsATokenizer) {
  EXPECT_EQ(Call(client_, Make(Verb::kRank), Texts({"a", "b"})).code, Code::kNoTokenizer);
}

}  // namespace
}  // namespace kvd
