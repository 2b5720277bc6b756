// Tests verbs for texts that are read without cells: embeddings, ranks and encoded texts.
#include <limits>
#include <optional>

#include "daemon/verbs/service.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::ReceivedCompletion;
using test::ServiceTest;
using ::testing::HasSubstr;
using wire::Verb;

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

wire::Submission MakeEmbed(std::optional<wire::PoolingChoice> pooling = std::nullopt,
                           std::uint16_t flags = 0) {
  return wire::MakeSubmission(wire::EmbedArgs{.pooling = pooling}, flags);
}

TEST_F(ServiceTest, AModelWithoutPoolingEmbedsAndRanksNothing) {
  ExpectRefused(Call(client_, MakeEmbed(), TokenLists({{5}})), Code::kUnsupported,
                "does not embed texts");
  ExpectRefused(Call(client_, Make(Verb::kRank), Texts({"a", "b"})), Code::kUnsupported,
                "does not embed texts");
}

class EncoderServiceTest : public ServiceTest {
 protected:
  EncoderServiceTest() : ServiceTest({.is_encoder = true}) {}

  // Submits `times` embed requests, runs the scheduler until it is idle and returns its answers.
  std::vector<ReceivedCompletion> Embed(std::uint16_t flags, int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(Call(client_, MakeEmbed(std::nullopt, flags), TokenLists({{5, 6}})).code(),
                Code::kOk);
    }
    RunDry();
    return client_.All();
  }
};

TEST_F(EncoderServiceTest, EmbeddingsAreNormalisedOnRequest) {
  for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{wire::kFlagNormalize}}) {
    const auto answers = Embed(flags, 1);
    ASSERT_EQ(answers.size(), 1u);
    const auto reply = answers[0].As<wire::EmbedReply>();
    EXPECT_EQ(reply.rows, 1u);
    EXPECT_EQ(reply.width, 2u);
    ASSERT_EQ(reply.values.size(), 2u);
    EXPECT_EQ(reply.values[0], flags == 0 ? 3.0f : 0.6f);
    EXPECT_EQ(reply.values[1], flags == 0 ? 4.0f : 0.8f);
  }
}

TEST_F(EncoderServiceTest, SeveralTextsMayBeInFlight) { EXPECT_EQ(Embed(0, 3).size(), 3u); }

TEST_F(EncoderServiceTest, VerbsThatNeedADecoderAreRefusedByName) {
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
  ReceivedCompletion Encode(SequenceHandle sequence, const std::vector<TokenId>& tokens) {
    EXPECT_EQ(CallTokens(client_, Make(Verb::kEncode, sequence), tokens).code(), Code::kOk);
    RunDry();
    const auto answers = client_.All();
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? ReceivedCompletion{} : answers.front();
  }
};

TEST_F(CrossServiceTest, ATextIsEncodedOnceBeforeTheFirstTokenAndForksShareIt) {
  const SequenceHandle sequence = Create(client_);
  const ReceivedCompletion early = [&] {
    wire::Submission decode = Make(Verb::kDecode, sequence);
    EXPECT_EQ(CallTokens(client_, decode, {5}).code(), Code::kOk);
    RunDry();
    return client_.All().front();
  }();
  EXPECT_EQ(early.code(), Code::kInvalidArgument);

  const ReceivedCompletion encoded = Encode(sequence, {5, 6, 7});
  ASSERT_EQ(encoded.code(), Code::kOk);
  const auto reply = encoded.As<wire::EncodeReply>();
  EXPECT_EQ(reply.tokens, 3u);
  EXPECT_EQ(reply.start_token, test::FakeEngine::kBos);
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->cross_cells, 3u);
  EXPECT_EQ(Encode(sequence, {5}).code(), Code::kExists);

  wire::Submission fork = Make(wire::ForkArgs{.sequence = sequence});
  ASSERT_EQ(Call(client_, fork).code(), Code::kOk);
  for (const SequenceInfo& info : engine_.memory().sequences().List())
    EXPECT_EQ(info.cross_cells, 3u);
}

TEST_F(CrossServiceTest, InvalidTokensAndHandlesAreRefused) {
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
  ASSERT_EQ(Call(client_, MakeEmbed(), TokenLists({{5, 6}, {7}, {8, 9, 10}})).code(), Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_EQ(answers.size(), 1u);
  const auto reply = answers[0].As<wire::EmbedReply>();
  EXPECT_EQ(reply.rows, 3u);
  EXPECT_EQ(reply.width, 2u);
  EXPECT_EQ(reply.values.size(), 6u);
}

TEST_F(EncoderServiceTest, TextsThatTheModelCannotReadAreRefusedByTheirIndex) {
  ExpectRefused(Call(client_, MakeEmbed(), TokenLists({{5}, {64}})), Code::kInvalidArgument,
                "text 1: ");
  ExpectRefused(Call(client_, MakeEmbed(), TokenLists({{5}, std::vector<TokenId>(4097, 5)})),
                Code::kInvalidArgument, "text 1: tokens: 4097, the model reads at most 4096");
}

TEST_F(EncoderServiceTest, RankingNeedsAClassifier) {
  ExpectRefused(Call(client_, MakeEmbed(wire::PoolingChoice::kRank), TokenLists({{5}})),
                Code::kUnsupported, "no classifier");
  ExpectRefused(Call(client_, Make(Verb::kRank), Texts({"a", "b"})), Code::kUnsupported,
                "no classifier");
}

class RankServiceTest : public ServiceTest {
 protected:
  explicit RankServiceTest(bool has_tokenizer = true)
      : ServiceTest({.has_tokenizer = has_tokenizer, .is_encoder = true, .has_classifier = true}) {}
};

TEST_F(RankServiceTest, EachDocumentHasAScore) {
  ASSERT_EQ(Call(client_, Make(Verb::kRank), Texts({"ab", "a", "b", "ba"})).code(), Code::kOk);
  RunDry();
  const auto answers = client_.All();
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_EQ(answers[0].code(), Code::kOk);
  const auto reply = answers[0].As<wire::RankReply>();
  EXPECT_GE(reply.tokens, 3u * 3u);
  EXPECT_EQ(reply.scores, std::vector<float>(3, 3.0f));
}

TEST_F(RankServiceTest, AnInvalidTextEndsTheRequestAndIsNamed) {
  const auto message = [&](const std::vector<std::string_view>& texts) {
    EXPECT_EQ(Call(client_, Make(Verb::kRank), Texts(texts)).code(), Code::kOk);
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
  ASSERT_EQ(Call(client_, Make(Verb::kRank), Texts({"ab", "a", "b"})).code(), Code::kOk);
  wire::Submission cancel = Make(wire::CancelArgs{.request = RequestId{last_request_}});
  ASSERT_EQ(Call(client_, cancel).code(), Code::kOk);
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
  EXPECT_EQ(Call(client_, Make(Verb::kRank), Texts({"a", "b"})).code(), Code::kNoTokenizer);
}

}  // namespace
}  // namespace kvd
