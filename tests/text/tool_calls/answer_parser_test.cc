// AnswerParser: every case of answer_cases.h as a whole and cut at every byte, what is streamed
// when, the limits, and ids.
#include "text/tool_calls/answer_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/text/tool_calls/answer_cases.h"
#include "text/json.h"
#include "text/tool_calls/json_scanner.h"

namespace kvd {
namespace {

using test::AnswerCase;
using test::AnswerCases;
using testing::ElementsAre;

std::string Shown(const ParsedAnswer& answer) {
  std::string text = "content: " + QuotedJson(answer.content);
  text += "\nreasoning: " + QuotedJson(answer.reasoning);
  for (const ParsedCall& call : answer.calls) {
    text += "\ncall: " + call.name + " " + call.arguments;
    if (!call.is_complete) text += " (not complete)";
  }
  return text;
}

std::string Expected(const AnswerCase& answer) {
  ParsedAnswer expected{std::string(answer.content), std::string(answer.reasoning), {}};
  for (const test::CallCase& call : answer.calls) {
    expected.calls.push_back({std::string(call.id), std::string(call.name),
                              std::string(call.arguments), call.is_complete});
  }
  return Shown(expected);
}

TEST(AnswerParserTest, EveryCaseIsParsedAsItsRowSays) {
  for (const AnswerCase& answer : AnswerCases()) {
    SCOPED_TRACE(answer.name);
    const ParsedAnswer parsed = ParseAnswer(answer.format, OptionsOf(answer), answer.text);
    EXPECT_EQ(Shown(parsed), Expected(answer));
    for (std::size_t i = 0; i < std::min(parsed.calls.size(), answer.calls.size()); ++i) {
      if (!answer.calls[i].id.empty()) {
        EXPECT_EQ(parsed.calls[i].id, answer.calls[i].id);
      }
      if (parsed.calls[i].is_complete) {
        const auto arguments = ParseJson(parsed.calls[i].arguments);
        EXPECT_TRUE(arguments && arguments->is_dict()) << parsed.calls[i].arguments;
      }
    }
  }
}

TEST(AnswerParserTest, SplittingTheTextDoesNotChangeTheResult) {
  for (const AnswerCase& answer : AnswerCases()) {
    SCOPED_TRACE(answer.name);
    const AnswerOptions options = OptionsOf(answer);
    const ParsedAnswer whole = ParseAnswer(answer.format, options, answer.text);
    for (std::size_t cut = 0; cut <= answer.text.size(); ++cut) {
      AnswerParser parser(answer.format, options);
      std::vector<AnswerEvent> events;
      ParsedAnswer cut_answer;
      for (const std::string_view piece : {answer.text.substr(0, cut), answer.text.substr(cut)}) {
        events.clear();
        parser.Feed(piece, events);
        cut_answer.Add(events);
      }
      events.clear();
      parser.Finish(events);
      cut_answer.Add(events);
      ASSERT_EQ(Shown(cut_answer), Shown(whole)) << "cut at " << cut;
    }
    AnswerParser parser(answer.format, options);
    std::vector<AnswerEvent> events;
    for (const char c : answer.text) parser.Feed(std::string_view(&c, 1), events);
    parser.Finish(events);
    ParsedAnswer bytes;
    bytes.Add(events);
    EXPECT_EQ(Shown(bytes), Shown(whole)) << "byte by byte";
  }
}

TEST(AnswerParserTest, EveryPrefixOfAnAnswerCanBeParsed) {
  for (const AnswerCase& answer : AnswerCases()) {
    SCOPED_TRACE(answer.name);
    for (std::size_t end = 0; end < answer.text.size(); ++end) {
      const ParsedAnswer parsed =
          ParseAnswer(answer.format, OptionsOf(answer), answer.text.substr(0, end));
      EXPECT_LE(parsed.calls.size(), answer.calls.size());
      for (const ParsedCall& call : parsed.calls) {
        const auto arguments = ParseJson(call.arguments);
        EXPECT_TRUE(!call.is_complete || (arguments && arguments->is_dict())) << call.arguments;
      }
    }
  }
}

// The events of a text, as short texts.
std::vector<std::string> Events(AnswerParser& parser, std::string_view text) {
  std::vector<AnswerEvent> events;
  parser.Feed(text, events);
  std::vector<std::string> shown;
  for (const AnswerEvent& event : events) {
    constexpr std::string_view kKinds[] = {"content ", "reasoning ", "begin ", "arguments ", "end"};
    shown.push_back(std::string(kKinds[static_cast<std::size_t>(event.kind)]) + event.text);
  }
  return shown;
}

TEST(AnswerParserTest, ContentIsStreamedAndOnlyTheStartOfAMarkerIsHeld) {
  AnswerParser parser(ToolFormat::kHermes, {});
  EXPECT_THAT(Events(parser, "Hi"), ElementsAre("content Hi"));
  EXPECT_THAT(Events(parser, " <tool"), ElementsAre());
  EXPECT_THAT(Events(parser, "s>"), ElementsAre("content  <tools>"));
  EXPECT_THAT(Events(parser, "<tool_call>{\"name\": \"f\", "), ElementsAre());
  EXPECT_THAT(Events(parser, "\"arguments\": {\"a\""), ElementsAre("begin f", "arguments {\"a\""));
  EXPECT_THAT(Events(parser, ": 1"), ElementsAre("arguments : 1"));
  EXPECT_THAT(Events(parser, "}}"), ElementsAre("arguments }", "end"));
  EXPECT_THAT(Events(parser, "</tool_call>"), ElementsAre());
}

TEST(AnswerParserTest, StringParametersAreStreamedAndOthersHeldToTheirEnd) {
  AnswerOptions options;
  options.tools = test::CaseTools();
  AnswerParser parser(ToolFormat::kQwen3Coder, options);
  EXPECT_THAT(Events(parser, "<tool_call><function=weather>"),
              ElementsAre("begin weather", "arguments {"));
  EXPECT_THAT(Events(parser, "<parameter=city>\nZ"), ElementsAre("arguments \"city\": \"Z"));
  EXPECT_THAT(Events(parser, "ug\n</param"), ElementsAre("arguments ug"));
  EXPECT_THAT(Events(parser, "eter>"), ElementsAre("arguments \""));
  EXPECT_THAT(Events(parser, "<parameter=days>\n12"), ElementsAre());
  EXPECT_THAT(Events(parser, "\n</parameter>"), ElementsAre("arguments , \"days\": 12"));
}

TEST(AnswerParserTest, WithoutToolsMarkersAreContent) {
  for (const AnswerCase& answer : AnswerCases()) {
    SCOPED_TRACE(answer.name);
    AnswerOptions options = OptionsOf(answer);
    options.parses_calls = false;
    const ParsedAnswer parsed = ParseAnswer(answer.format, options, answer.text);
    EXPECT_TRUE(parsed.calls.empty());
    for (const test::CallCase& call : answer.calls) {
      EXPECT_THAT(parsed.content + parsed.reasoning, testing::HasSubstr(std::string(call.name)));
    }
  }
}

TEST(AnswerParserTest, IdsAreNineLettersAndDigitsAndDifferBySeedAndIndex) {
  std::set<std::string> ids;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "[TOOL_CALLS]f[ARGS]{}";
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    AnswerOptions options;
    options.id_seed = seed;
    for (const ParsedCall& call : ParseAnswer(ToolFormat::kMistral, options, text).calls) {
      EXPECT_EQ(call.id.size(), 9u);
      EXPECT_EQ(call.id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                std::string::npos);
      ids.insert(call.id);
    }
  }
  EXPECT_EQ(ids.size(), 60u);
}

TEST(AnswerParserTest, CallsBeyondTheLimitAreContent) {
  std::string text;
  for (std::size_t i = 0; i <= AnswerParser::kCallsMax; ++i) text += "[TOOL_CALLS]f[ARGS]{}";
  const ParsedAnswer parsed = ParseAnswer(ToolFormat::kMistral, {}, text);
  EXPECT_EQ(parsed.calls.size(), AnswerParser::kCallsMax);
  EXPECT_EQ(parsed.content, "[TOOL_CALLS]f[ARGS]{}");
}

TEST(AnswerParserTest, ACallWithoutANameIsContentBeyondTheHeldBytes) {
  const std::string text = "<tool_call>{\"arguments\": {\"a\": \"" +
                           std::string(AnswerParser::kHeldBytesMax, 'x') +
                           "\"}, \"name\": \"f\"}</tool_call>";
  const ParsedAnswer parsed = ParseAnswer(ToolFormat::kHermes, {}, text);
  EXPECT_TRUE(parsed.calls.empty());
  EXPECT_EQ(parsed.content, text);
}

// Without a bound on the bytes that are read again, each marker would be tried with all text after
// it.
TEST(AnswerParserTest, TheNumberOfMarkersTriedInHeldTextIsLimited) {
  std::string values = "<tool_call>{\"a\": [0";
  for (int i = 0; i < 20'000; ++i) values += ", \"<tool_call>{\", \"b\"";
  const ParsedAnswer in_strings = ParseAnswer(ToolFormat::kHermes, {}, values);
  EXPECT_TRUE(in_strings.calls.empty());
  EXPECT_EQ(in_strings.content, values);

  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "<function=f><parameter=a>1";
  const ParsedAnswer nested = ParseAnswer(ToolFormat::kQwen3Coder, {}, text);
  EXPECT_LT(nested.calls.size(), 100u);
  EXPECT_GT(nested.content.size(), text.size() / 2);
}

TEST(AnswerParserTest, NestingBeyondTheLimitEndsTheArguments) {
  const std::string text = "[TOOL_CALLS]f[ARGS]{\"a\": " + std::string(200, '[');
  const ParsedAnswer parsed = ParseAnswer(ToolFormat::kMistral, {}, text);
  ASSERT_EQ(parsed.calls.size(), 1u);
  EXPECT_FALSE(parsed.calls[0].is_complete);
  EXPECT_EQ(parsed.calls[0].arguments.size() + parsed.content.size(), text.size() - 19);
}

}  // namespace
}  // namespace kvd
