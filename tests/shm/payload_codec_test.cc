#include "shm/payload_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

namespace kvd::wire {
namespace {

constexpr std::uint32_t kVocab = 100;

GenerateParams GoodParams() {
  return {.token_count = 1,
          .predict_max = -1,
          .sampling = kDefaultSampling,
          .logprob_count = 0,
          .flags = 0,
          .seed = 0,
          .bias_count = 0,
          .stop_count = 0,
          .stop_bytes = 0,
          .breaker_count = 0,
          .breaker_bytes = 0,
          .grammar_bytes = 0,
          .trigger_count = 0,
          .trigger_bytes = 0,
          .room_wait_ms = -1,
          .reserved = 0};
}

std::vector<std::byte> Encode(const GenerateView& view) {
  std::vector<std::byte> bytes(GenerateBytes(view));
  EncodeGenerate(view, bytes);
  return bytes;
}

template <class T>
std::string FieldOf(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  if (result) return "";
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  return result.error().message.substr(0, result.error().message.find(':'));
}

// The field that the parser names when the payload's parameters are changed.
std::string SpoiledField(std::vector<std::byte> bytes,
                         const std::function<void(GenerateParams&)>& spoil) {
  GenerateParams params;
  std::memcpy(&params, bytes.data(), sizeof params);
  spoil(params);
  std::memcpy(bytes.data(), &params, sizeof params);
  return FieldOf(ParseGenerate(bytes, kVocab));
}

TEST(GenerateCodecTest, EncodedPayloadsAreParsedBack) {
  const TokenId tokens[] = {1, 2, 99};
  const LogitBias biases[] = {{3, 1.5f}, {4, -std::numeric_limits<float>::infinity()}};
  const std::string_view stops[] = {"\n\n", "\xe2\x82\xac"};
  const auto parsed = ParseGenerate(Encode({GoodParams(), tokens, biases, stops}), kVocab);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->tokens, std::vector<TokenId>({1, 2, 99}));
  ASSERT_EQ(parsed->biases.size(), 2u);
  EXPECT_EQ(parsed->biases[0].token, 3);
  EXPECT_EQ(parsed->stops, std::vector<std::string>({"\n\n", "\xe2\x82\xac"}));
  EXPECT_EQ(parsed->params.sampling.top_k, 40);
}

TEST(GenerateCodecTest, EachBadParameterIsNamed) {
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto field = [](const std::function<void(GenerateParams&)>& spoil) {
    GenerateParams params = GoodParams();
    spoil(params);
    return FieldOf(ValidateGenerateParams(params));
  };
  using P = GenerateParams;
  EXPECT_EQ(field([](P& p) { p.token_count = 0; }), "generate.token_count");
  EXPECT_EQ(field([](P& p) { p.token_count = 1u << 31; }), "generate.token_count");
  EXPECT_EQ(field([](P& p) { p.predict_max = -2; }), "generate.predict_max");
  for (const float bad : {kNan, kInfinity, -0.1f}) {
    EXPECT_EQ(field([bad](P& p) { p.sampling.temperature = bad; }), "generate.temperature");
  }
  EXPECT_EQ(field([](P& p) { p.sampling.top_k = -1; }), "generate.top_k");
  for (const float bad : {kNan, 0.0f, 1.1f}) {
    EXPECT_EQ(field([bad](P& p) { p.sampling.top_p = bad; }), "generate.top_p");
    EXPECT_EQ(field([bad](P& p) { p.sampling.typical_p = bad; }), "generate.typical_p");
  }
  for (const float bad : {kNan, -0.1f, 1.1f}) {
    EXPECT_EQ(field([bad](P& p) { p.sampling.min_p = bad; }), "generate.min_p");
  }
  for (const float bad : {kNan, 0.0f, -1.0f, kInfinity}) {
    EXPECT_EQ(field([bad](P& p) { p.sampling.repeat_penalty = bad; }), "generate.repeat_penalty");
  }
  for (const float bad : {kNan, -2.1f, 2.1f}) {
    EXPECT_EQ(field([bad](P& p) { p.sampling.presence_penalty = bad; }),
              "generate.presence_penalty");
    EXPECT_EQ(field([bad](P& p) { p.sampling.frequency_penalty = bad; }),
              "generate.frequency_penalty");
  }
  EXPECT_EQ(field([](P& p) { p.sampling.repeat_last = -2; }), "generate.repeat_last");
  EXPECT_EQ(field([](P& p) { p.logprob_count = 65; }), "generate.logprob_count");
  EXPECT_EQ(field([](P& p) { p.flags = kGenerateFlagsAll + 1; }), "generate.flags");
  EXPECT_EQ(field([](P& p) { p.flags = wire::kContinue; }), "generate.token_count");
  EXPECT_EQ(field([](P& p) { p.bias_count = 1025; }), "generate.bias_count");
  EXPECT_EQ(field([](P& p) { p.stop_count = 17; }), "generate.stop_count");
  EXPECT_EQ(field([](P& p) { p.breaker_count = 1; }), "generate.breaker_count");
  EXPECT_EQ(field([](P& p) {
              p.flags = wire::kOwnBreakers;
              p.breaker_count = 17;
            }),
            "generate.breaker_count");
  EXPECT_EQ(field([](P& p) { p.grammar_bytes = kGrammarBytesMax + 1; }), "generate.grammar_bytes");
  EXPECT_EQ(field([](P& p) { p.trigger_count = 1; }), "generate.trigger_count")
      << "triggers without a grammar";
  EXPECT_EQ(field([](P& p) {
              p.grammar_bytes = 1;
              p.trigger_count = kTriggersMax + 1;
            }),
            "generate.trigger_count");
  EXPECT_EQ(field([](P& p) { p.sampling.xtc_threshold = kNan; }), "generate.xtc_threshold");
  EXPECT_EQ(field([](P& p) { p.sampling.chain.kinds[1] = SamplerKind::kPenalties; }),
            "generate.samplers");
}

TEST(GenerateCodecTest, EachBadListIsNamed) {
  const TokenId tokens[] = {1};
  const TokenId bad_tokens[] = {100};
  const TokenId negative_tokens[] = {-1};
  EXPECT_EQ(FieldOf(ParseGenerate({}, kVocab)), "generate");
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), bad_tokens, {}, {}}), kVocab)), "tokens");
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), negative_tokens, {}, {}}), kVocab)),
            "tokens");
  const float bad_biases[] = {std::numeric_limits<float>::quiet_NaN(), 1001.0f, -1001.0f,
                              std::numeric_limits<float>::infinity()};
  for (const float bad : bad_biases) {
    const LogitBias biases[] = {{1, bad}};
    EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), tokens, biases, {}}), kVocab)),
              "generate.bias");
  }
  const LogitBias bias_of_unknown[] = {{100, 1}};
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), tokens, bias_of_unknown, {}}), kVocab)),
            "generate.bias");
  const std::string_view empty_stop[] = {""};
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), tokens, {}, empty_stop}), kVocab)),
            "generate.stop bytes");
  const std::string long_text(257, 'x');
  const std::string_view long_stop[] = {long_text};
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), tokens, {}, long_stop}), kVocab)),
            "generate.stop bytes");
  const std::string_view malformed_stop[] = {"\xff"};
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({GoodParams(), tokens, {}, malformed_stop}), kVocab)),
            "generate.stop");
}

TEST(GenerateCodecTest, CountsThatDoNotFitThePayloadAreNamed) {
  const TokenId tokens[] = {1};
  const std::string_view stops[] = {"ab"};
  const auto spoiled = [&](const auto& spoil) {
    return SpoiledField(Encode({GoodParams(), tokens, {}, stops}), spoil);
  };
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.token_count = 0x7fffffff; }), "generate");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.stop_bytes = ~0u; }), "generate");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.stop_count = 0; }), "generate.stop_bytes");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.stop_count = 2; }), "generate.stop_bytes");
  auto bytes = Encode({GoodParams(), tokens, {}, stops});
  const std::uint32_t huge = ~0u;
  std::memcpy(bytes.data() + sizeof(GenerateParams) + sizeof(TokenId), &huge, sizeof huge);
  EXPECT_EQ(FieldOf(ParseGenerate(bytes, kVocab)), "generate.stop");
}

TEST(GenerateCodecTest, BreakersFollowTheStops) {
  const TokenId tokens[] = {1};
  const std::string_view stops[] = {"ab"};
  const std::string_view breakers[] = {"\n", "***"};
  GenerateParams params = GoodParams();
  params.flags = wire::kOwnBreakers;
  const std::vector<std::byte> good = Encode({params, tokens, {}, stops, breakers});
  const auto parsed = ParseGenerate(good, kVocab);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->stops, std::vector<std::string>({"ab"}));
  EXPECT_EQ(parsed->breakers, std::vector<std::string>({"\n", "***"}));
  const auto none = ParseGenerate(Encode({params, tokens, {}, stops, {}}), kVocab);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->breakers.empty());
  const std::string long_text(wire::kBreakerBytesMax + 1, 'x');
  for (const std::string_view bad : {std::string_view(), std::string_view(long_text)}) {
    const std::string_view list[] = {bad};
    EXPECT_EQ(FieldOf(ParseGenerate(Encode({params, tokens, {}, stops, list}), kVocab)),
              "generate.breaker bytes");
  }
  const std::string_view malformed[] = {"\xff"};
  EXPECT_EQ(FieldOf(ParseGenerate(Encode({params, tokens, {}, stops, malformed}), kVocab)),
            "generate.breaker");
  const auto spoiled = [&](const auto& spoil) { return SpoiledField(good, spoil); };
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.breaker_bytes = ~0u; }), "generate");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.breaker_count = 1; }), "generate.breaker_bytes");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.breaker_count = 3; }), "generate.breaker_bytes");
  EXPECT_EQ(spoiled([](GenerateParams& p) {
              p.breaker_bytes += 6;
              p.stop_bytes -= 6;
            }),
            "generate.stop_bytes");
}

TEST(GenerateCodecTest, TheGrammarAndItsTriggersFollowTheBreakers) {
  const TokenId tokens[] = {1};
  const TriggerView triggers[] = {{.token = 7, .text = {}}, {.text = "<tool>"}};
  const std::string_view grammar = "root ::= \"a\"";
  const auto encode = [&](std::span<const TriggerView> list, std::string_view text) {
    return Encode({GoodParams(), tokens, {}, {}, {}, list, text});
  };
  const std::vector<std::byte> good = encode(triggers, grammar);
  const auto parsed = ParseGenerate(good, kVocab);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->grammar, grammar);
  ASSERT_EQ(parsed->triggers.size(), 2u);
  EXPECT_EQ(parsed->triggers[0].token, 7);
  EXPECT_EQ(parsed->triggers[0].text, "");
  EXPECT_EQ(parsed->triggers[1].token, kNoToken);
  EXPECT_EQ(parsed->triggers[1].text, "<tool>");

  const TriggerView outside[] = {{.token = 100, .text = {}}};
  EXPECT_EQ(FieldOf(ParseGenerate(encode(outside, grammar), kVocab)), "generate.trigger");
  const TriggerView both[] = {{.token = 7, .text = "x"}};
  EXPECT_EQ(FieldOf(ParseGenerate(encode(both, grammar), kVocab)), "generate.trigger");
  const TriggerView malformed[] = {{.text = "\xff"}};
  EXPECT_EQ(FieldOf(ParseGenerate(encode(malformed, grammar), kVocab)), "generate.trigger");
  const std::string long_text(kTriggerBytesMax + 1, 'x');
  for (const std::string_view bad : {std::string_view(), std::string_view(long_text)}) {
    const TriggerView list[] = {{.text = bad}};
    EXPECT_EQ(FieldOf(ParseGenerate(encode(list, grammar), kVocab)), "generate.trigger bytes");
  }
  EXPECT_EQ(FieldOf(ParseGenerate(encode({}, "\xff"), kVocab)), "generate.grammar");
  const auto spoiled = [&](const auto& spoil) { return SpoiledField(good, spoil); };
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.room_wait_ms = -2; }), "generate.room_wait_ms");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.reserved = 1; }), "generate.reserved");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.trigger_bytes = ~0u; }), "generate");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.trigger_count = 1; }), "generate.trigger_bytes");
  EXPECT_EQ(spoiled([](GenerateParams& p) { p.trigger_count = 3; }), "generate.trigger_bytes");
  EXPECT_EQ(spoiled([](GenerateParams& p) {
              p.trigger_bytes -= 2;
              p.grammar_bytes += 2;
            }),
            "generate.trigger");
}

TEST(GenerateCodecTest, TheHashOfAGrammarCoversTextAndTriggers) {
  const TokenId tokens[] = {1};
  const TriggerView one[] = {{.text = "ab"}};
  const TriggerView other[] = {{.text = "ac"}};
  const auto hash = [&](std::span<const TriggerView> triggers, std::string_view grammar) {
    const auto parsed =
        ParseGenerate(Encode({GoodParams(), tokens, {}, {}, {}, triggers, grammar}), kVocab);
    return parsed ? parsed->grammar_hash : ~std::uint64_t{0};
  };
  EXPECT_EQ(hash({}, {}), 0u);
  EXPECT_NE(hash({}, "a"), 0u);
  EXPECT_EQ(hash(one, "a"), hash(one, "a"));
  EXPECT_NE(hash(one, "a"), hash(one, "b"));
  EXPECT_NE(hash(one, "a"), hash(other, "a"));
  EXPECT_NE(hash(one, "a"), hash({}, "a"));
}

TEST(TokensTest, OddAndEmptyLengthsAreNamed) {
  const TokenId token = 4;
  EXPECT_TRUE(ParseTokens(std::as_bytes(std::span(&token, 1)), kVocab));
  EXPECT_EQ(FieldOf(ParseTokens({}, kVocab)), "tokens");
  EXPECT_EQ(FieldOf(ParseTokens(std::as_bytes(std::span(&token, 1)).first(3), kVocab)), "tokens");
}

std::vector<std::byte> Lists(const std::vector<std::vector<TokenId>>& lists) {
  const std::vector<std::span<const TokenId>> views(lists.begin(), lists.end());
  std::vector<std::byte> bytes(TokenListsBytes(views));
  EncodeTokenLists(views, bytes);
  return bytes;
}

TEST(TokenListsCodecTest, EncodedPayloadsAreParsedBack) {
  const TokenLists lists = {{1, 2, 3}, {0}, {9, 9}};
  const auto parsed = ParseTokenLists(Lists(lists), 10);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, lists);
}

TEST(TokenListsCodecTest, EachBadFieldIsNamed) {
  const auto field = [](const std::vector<std::byte>& bytes) {
    return FieldOf(ParseTokenLists(bytes, 10));
  };
  std::vector<std::byte> good = Lists({{1, 2}, {3}});
  EXPECT_EQ(field({}), "texts");
  EXPECT_EQ(field(std::vector<std::byte>(4)), "texts");  // no text
  EXPECT_EQ(field(Lists(std::vector<std::vector<TokenId>>(4097, {1}))), "texts");
  EXPECT_EQ(field({good.begin(), good.begin() + 8}), "texts");  // ends inside the lengths
  EXPECT_EQ(field({good.begin(), good.end() - 4}), "texts");    // a token is missing
  EXPECT_EQ(field(Lists({{1}, {}})), "text 1");
  EXPECT_EQ(field(Lists({{1}, {10}})), "text 1");
  EXPECT_EQ(field(Lists({{-1}})), "text 0");
  std::vector<std::byte> many = Lists({{1}, {2}});
  const std::uint32_t length = kEmbedTokensMax;
  std::memcpy(many.data() + 4, &length, sizeof length);
  EXPECT_EQ(field(many), "tokens of all texts");
}

std::vector<std::byte> EncodedTexts(const std::vector<std::string_view>& texts) {
  std::vector<std::byte> bytes(TextsBytes(texts));
  EncodeTexts(texts, bytes);
  return bytes;
}

TEST(TextsCodecTest, EncodedPayloadsAreParsedBack) {
  const std::vector<std::string_view> texts = {"query", "", "a document"};
  const std::vector<std::byte> bytes = EncodedTexts(texts);
  const auto parsed = ParseTexts(bytes);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, texts);
}

TEST(TextsCodecTest, EachBadFieldIsNamed) {
  const auto field = [](const std::vector<std::byte>& bytes) { return FieldOf(ParseTexts(bytes)); };
  EXPECT_EQ(field({}), "documents");
  EXPECT_EQ(field(EncodedTexts({"query"})), "documents");
  EXPECT_EQ(field(EncodedTexts(std::vector<std::string_view>(4098, ""))), "documents");
  EXPECT_EQ(field(EncodedTexts({"\xff", "a"})), "query");
  EXPECT_EQ(field(EncodedTexts({"a", "b", "\xff"})), "document 1");
  const std::string large(kRankTextBytesMax + 1, 'a');
  EXPECT_EQ(field(EncodedTexts({large, "a"})), "query");
  EXPECT_EQ(field(EncodedTexts({"a", large})), "document 0");
  std::vector<std::byte> good = EncodedTexts({"query", "ab"});
  EXPECT_EQ(field({good.begin(), good.end() - 1}), "document 0");
  EXPECT_EQ(field({good.begin(), good.begin() + 11}), "document 0");  // ends inside the length
  const auto split = SplitTexts(EncodedTexts({"\xff", "a"}));
  EXPECT_TRUE(split.has_value()) << "SplitTexts does not look at the bytes";
}

std::vector<std::byte> EncodedChatTexts(const std::vector<ChatTextView>& texts) {
  std::vector<std::byte> bytes(ChatTextsBytes(texts));
  EncodeChatTexts(texts, bytes);
  return bytes;
}

TEST(ChatTextsCodecTest, EncodedPayloadsAreParsedBack) {
  const auto bytes = EncodedChatTexts({{ChatTextKind::kTemplate, "", "{{ messages }}"},
                                       {ChatTextKind::kTemplate, "tool_use", ""},
                                       {ChatTextKind::kToken, "bos", "\xff"}});
  const auto parsed = ParseChatTexts(bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ((*parsed)[0].text, "{{ messages }}");
  EXPECT_EQ((*parsed)[1].name, "tool_use");
  EXPECT_EQ((*parsed)[2].kind, ChatTextKind::kToken);
  EXPECT_EQ((*parsed)[2].text, "\xff");
  EXPECT_TRUE(ParseChatTexts({}).value().empty());
}

TEST(ChatTextsCodecTest, EachBadRecordIsNamed) {
  auto bytes = EncodedChatTexts({{ChatTextKind::kToken, "bos", "<s>"}});
  const auto cut = [&](std::size_t byte_count) {
    return FieldOf(ParseChatTexts(std::span(bytes).first(byte_count)));
  };
  EXPECT_EQ(cut(sizeof(ChatText) - 1), "chat text 0");
  EXPECT_EQ(cut(bytes.size() - 1), "chat text 0");
  bytes.resize(bytes.size() + 1);
  EXPECT_EQ(cut(bytes.size()), "chat text 1");
  const ChatText huge{static_cast<std::uint32_t>(ChatTextKind::kToken), ~0u, ~0u};
  EXPECT_EQ(FieldOf(ParseChatTexts(std::as_bytes(std::span(&huge, 1)))), "chat text 0");
  const ChatText unknown{3, 0, 0};
  EXPECT_EQ(FieldOf(ParseChatTexts(std::as_bytes(std::span(&unknown, 1)))), "chat text 0");
}

TEST(TextTest, NamesAndTextsAreChecked) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(ParseName(bytes("snap-1")).value(), "snap-1");
  EXPECT_EQ(FieldOf(ParseName(bytes("../x"))), "name");
  EXPECT_EQ(ParseText(bytes("")).value(), "");
  EXPECT_EQ(ParseText(bytes("h\xc3\xa9")).value(), "h\xc3\xa9");
  EXPECT_EQ(FieldOf(ParseText(bytes("\xc3"))), "text");
}

}  // namespace
}  // namespace kvd::wire
