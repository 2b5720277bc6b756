// Tool grammars: each accepts what its format's template renders and refuses other calls; what it
// accepts is parsed to the same calls.
#include "text/tool_calls/tool_grammar.h"

#include <gtest/gtest.h>

#include "tests/text/tool_calls/answer_cases.h"
#include "tests/text/tool_calls/call_texts.h"
#include "tests/text/tool_calls/gbnf_recognizer.h"
#include "text/json.h"

namespace kvd {
namespace {

using F = ToolFormat;
using Kind = ToolChoice::Kind;

AnswerOptions OptionsWithTools() {
  AnswerOptions options;
  options.tools = test::CaseTools();
  return options;
}

ToolGrammar GrammarOf(ToolFormat format, Kind kind, const ToolGrammarOptions& options = {},
                      std::string_view function = {}) {
  const auto grammar =
      MakeToolGrammar(format, test::CaseTools(), {kind, std::string(function)}, options);
  EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
  return grammar ? *grammar : ToolGrammar();
}

std::map<std::string, int> TokensOf(ToolFormat format, ToolGrammarOptions& options) {
  std::map<std::string, int> tokens;
  for (const std::string& text : GrammarMarkers(format, options.reasoning)) {
    const int token = 100 + static_cast<int>(tokens.size());
    if (tokens.emplace(text, token).second) options.tokens.push_back({text, token});
  }
  return tokens;
}

TEST(ToolGrammarTest, EveryFormatHasACase) {
  EXPECT_EQ(test::AllCallTexts().size(), ToolFormats().size());
}

TEST(ToolGrammarTest, RenderedCallsMatchTheGrammarAndAreParsed) {
  for (const test::CallTexts& row : test::AllCallTexts()) {
    SCOPED_TRACE(NameOf(row.format));
    const ToolGrammar grammar = GrammarOf(row.format, Kind::kAuto);
    EXPECT_TRUE(grammar.is_lazy());
    const test::GbnfRecognizer recognizer(grammar.gbnf);
    // Harmony's prompt ends inside of the header.
    const std::string prefix = row.format == F::kHarmony ? " " : "";
    for (const std::string_view text : {row.one, row.two}) {
      if (text.empty()) continue;
      EXPECT_TRUE(recognizer.Accepts(text))
          << text << "\naccepted: " << recognizer.AcceptedSymbols(text, {}) << "\n"
          << grammar.gbnf;
      for (std::size_t end = 0; end < text.size(); ++end) {
        // A prefix that ends with a whole call may be a sentence.
        if (!recognizer.Accepts(text.substr(0, end))) continue;
        const ParsedAnswer parsed =
            ParseAnswer(row.format, OptionsWithTools(), prefix + std::string(text.substr(0, end)));
        EXPECT_TRUE(!parsed.calls.empty() && parsed.calls.back().is_complete) << end;
      }
    }
    for (const std::string& text : row.refused) EXPECT_FALSE(recognizer.Accepts(text)) << text;
    const ParsedAnswer one =
        ParseAnswer(row.format, OptionsWithTools(), prefix + std::string(row.one));
    ASSERT_EQ(one.calls.size(), 1u);
    EXPECT_EQ(one.calls[0].arguments, R"({"city": "Ulm", "days": 2})");
    EXPECT_EQ(one.content, "");
    if (row.two.empty()) continue;
    const ParsedAnswer two = ParseAnswer(row.format, OptionsWithTools(), row.two);
    ASSERT_EQ(two.calls.size(), 2u);
    EXPECT_EQ(two.calls[1].arguments, R"({"a": 1, "b": 2.5})");
    EXPECT_EQ(two.content, "");
  }
}

TEST(ToolGrammarTest, MarkersThatAreTokensBecomeTokens) {
  for (const test::CallTexts& row : test::AllCallTexts()) {
    SCOPED_TRACE(NameOf(row.format));
    ToolGrammarOptions options;
    const std::map<std::string, int> tokens = TokensOf(row.format, options);
    const ToolGrammar grammar = GrammarOf(row.format, Kind::kAuto, options);
    const test::GbnfRecognizer recognizer(grammar.gbnf);
    for (const std::string_view text : {row.one, row.two}) {
      if (text.empty()) continue;
      EXPECT_TRUE(recognizer.Accepts(text, tokens))
          << text << "\naccepted: " << recognizer.AcceptedSymbols(text, tokens) << "\n"
          << grammar.gbnf;
    }
    ASSERT_FALSE(grammar.triggers.empty());
    const GrammarStart& start = grammar.triggers[0];
    EXPECT_TRUE(start.token >= 100 || row.one.starts_with(start.text));
  }
}

TEST(ToolGrammarTest, WithoutParallelCallsThereIsOneCall) {
  for (const test::CallTexts& row : test::AllCallTexts()) {
    SCOPED_TRACE(NameOf(row.format));
    ToolGrammarOptions options;
    options.parallel_calls = false;
    const test::GbnfRecognizer recognizer(GrammarOf(row.format, Kind::kAuto, options).gbnf);
    EXPECT_TRUE(recognizer.Accepts(row.one));
    EXPECT_FALSE(recognizer.Accepts(row.two));
  }
}

TEST(ToolGrammarTest, RequiredCallsComeAfterTheReasoning) {
  for (const test::CallTexts& row : test::AllCallTexts()) {
    if (row.format == F::kHarmony) continue;
    SCOPED_TRACE(NameOf(row.format));
    ToolGrammarOptions options;
    options.reasoning = {"<think>", "</think>"};
    const std::string one(row.one);
    const ToolGrammar grammar = GrammarOf(row.format, Kind::kRequired, options);
    EXPECT_FALSE(grammar.is_lazy());
    const test::GbnfRecognizer recognizer(grammar.gbnf);
    EXPECT_TRUE(recognizer.Accepts(one));
    EXPECT_TRUE(recognizer.Accepts("<think>\nA <b </thin </</think>\n\n" + one));
    EXPECT_FALSE(recognizer.Accepts("Hm. " + one));
    EXPECT_FALSE(recognizer.Accepts("Hm.</think>" + one));
    options.starts_in_reasoning = true;
    const test::GbnfRecognizer inside(GrammarOf(row.format, Kind::kRequired, options).gbnf);
    EXPECT_TRUE(inside.Accepts("Hm.</think>\n" + one));
    EXPECT_FALSE(inside.Accepts(one));
    options.tokens = {{"<think>", 7}, {"</think>", 8}};
    const test::GbnfRecognizer by_token(GrammarOf(row.format, Kind::kRequired, options).gbnf);
    EXPECT_TRUE(by_token.Accepts("Hm.</think>\n" + one, {{"<think>", 7}, {"</think>", 8}}));
  }
}

TEST(ToolGrammarTest, InHarmonyReasoningPrecedesARequiredCall) {
  const test::GbnfRecognizer recognizer(GrammarOf(F::kHarmony, Kind::kRequired).gbnf);
  const std::string call = "to=functions.stop<|channel|>commentary json<|message|>{}<|call|>";
  EXPECT_TRUE(recognizer.Accepts(" " + call));
  EXPECT_TRUE(recognizer.Accepts(
      "<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{}<|call|>"));
  EXPECT_TRUE(recognizer.Accepts(
      "<|channel|>analysis<|message|>Hm <|en.<|end|><|start|>assistant " + call));
  EXPECT_FALSE(recognizer.Accepts("<|channel|>final<|message|>Hi"));
}

TEST(ToolGrammarTest, AnAnswerOfASchemaComesAfterTheReasoning) {
  const Value schema = *ParseJson(R"({"type": "integer"})");
  const auto recognizer = [&](F format, const ToolGrammarOptions& options, Kind kind) {
    const auto grammar =
        MakeAnswerGrammar(format, schema, "format", test::CaseTools(), {kind, {}}, options);
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
    EXPECT_FALSE(grammar->is_lazy());
    return test::GbnfRecognizer(grammar->gbnf);
  };
  for (const test::CallTexts& row : test::AllCallTexts()) {
    if (row.format == F::kHarmony) continue;
    SCOPED_TRACE(NameOf(row.format));
    ToolGrammarOptions options;
    EXPECT_TRUE(recognizer(row.format, options, Kind::kNone).Accepts("42"));
    EXPECT_FALSE(recognizer(row.format, options, Kind::kNone).Accepts(row.one));
    options.reasoning = {"<think>", "</think>"};
    const test::GbnfRecognizer both = recognizer(row.format, options, Kind::kAuto);
    EXPECT_TRUE(both.Accepts("42"));
    EXPECT_TRUE(both.Accepts(row.one));
    EXPECT_TRUE(both.Accepts("<think>\nHm.</think>\n\n42"));
    EXPECT_FALSE(both.Accepts("Hm. 42"));
    options.starts_in_reasoning = true;
    EXPECT_TRUE(recognizer(row.format, options, Kind::kNone).Accepts("Hm.</think>\n42"));
    EXPECT_FALSE(recognizer(row.format, options, Kind::kNone).Accepts("42"));
    options.starts_in_reasoning = false;
    const test::GbnfRecognizer required = recognizer(row.format, options, Kind::kRequired);
    EXPECT_FALSE(required.Accepts("42"));
    EXPECT_TRUE(required.Accepts(row.one));
  }
  const test::GbnfRecognizer harmony = recognizer(F::kHarmony, {}, Kind::kAuto);
  EXPECT_TRUE(harmony.Accepts("<|channel|>final<|message|>42"));
  EXPECT_TRUE(
      harmony.Accepts("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"
                      "<|channel|>final <|constrain|>json<|message|>42"));
  EXPECT_TRUE(harmony.Accepts(" to=functions.stop<|message|>{}"));
  EXPECT_FALSE(harmony.Accepts("42"));
}

TEST(ToolGrammarTest, AnErrorOfAnAnswersSchemaNamesTheField) {
  const Value schema = *ParseJson(R"({"type": "hiccup"})");
  const auto grammar =
      MakeAnswerGrammar(F::kJson, schema, "response_format", Value::None(), {Kind::kAuto, {}}, {});
  ASSERT_FALSE(grammar.has_value());
  EXPECT_TRUE(grammar.error().message.starts_with("response_format: #")) << grammar.error().message;
}

TEST(ToolGrammarTest, AChosenFunctionIsTheOnlyOne) {
  for (const test::CallTexts& row : test::AllCallTexts()) {
    if (row.format == F::kHarmony) continue;
    SCOPED_TRACE(NameOf(row.format));
    EXPECT_TRUE(test::GbnfRecognizer(GrammarOf(row.format, Kind::kFunction, {}, "weather").gbnf)
                    .Accepts(row.one));
    EXPECT_FALSE(test::GbnfRecognizer(GrammarOf(row.format, Kind::kFunction, {}, "add").gbnf)
                     .Accepts(row.one));
  }
}

TEST(ToolGrammarTest, OptionalParametersMayBeAbsent) {
  const Value tools = ParseJson(R"([{"type": "function", "function": {"name": "f", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"},
     "c": {"type": "string"}}, "required": ["b"]}}}])")
                          .value();
  const auto recognizer = [&](ToolFormat format) {
    return test::GbnfRecognizer(MakeToolGrammar(format, tools, {}, {}).value().gbnf);
  };
  const test::GbnfRecognizer python = recognizer(F::kLfm2);
  for (const std::string_view arguments :
       {"b=True", "a=1, b=False", "b=True, c='x'", "a=-1, b=True, c=\"\""}) {
    EXPECT_TRUE(
        python.Accepts("<|tool_call_start|>[f(" + std::string(arguments) + ")]<|tool_call_end|>"))
        << arguments;
  }
  for (const std::string_view arguments : {"", "a=1", "a=1, ", "b=True, ", ", b=True", "c='x'"}) {
    EXPECT_FALSE(
        python.Accepts("<|tool_call_start|>[f(" + std::string(arguments) + ")]<|tool_call_end|>"))
        << arguments;
  }
  const test::GbnfRecognizer tagged = recognizer(F::kSeed);
  EXPECT_TRUE(
      tagged.Accepts("<seed:tool_call>\n<function=f>\n<parameter=b>true</parameter>\n"
                     "</function>\n</seed:tool_call>"));
  EXPECT_FALSE(
      tagged.Accepts("<seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n"
                     "</function>\n</seed:tool_call>"));
}

TEST(ToolGrammarTest, StringsBetweenTagsEndAtTheTag) {
  const test::GbnfRecognizer recognizer(GrammarOf(F::kQwen3Coder, Kind::kAuto).gbnf);
  const auto call = [](std::string_view text) {
    return "<tool_call>\n<function=write>\n<parameter=path>\nx\n</parameter>\n<parameter=text>\n" +
           std::string(text) + "\n</parameter>\n</function>\n</tool_call>";
  };
  for (const std::string_view text :
       {"", "a\n\nb", "<p></p>", "</parameter", "</</parameter]>", "ü"}) {
    EXPECT_TRUE(recognizer.Accepts(call(text))) << text;
    EXPECT_EQ(
        ParseJson(ParseAnswer(F::kQwen3Coder, OptionsWithTools(), call(text)).calls.at(0).arguments)
            ->dict()
            .Find("text")
            .view(),
        text);
  }
  EXPECT_FALSE(recognizer.Accepts(call("</parameter>")));
}

TEST(ToolGrammarTest, WrongFieldsAreNamed) {
  const auto message = [](std::string_view tools, const ToolChoice& choice) {
    const auto grammar = MakeToolGrammar(F::kHermes, ParseJson(tools).value(), choice, {});
    return grammar ? std::string("no error") : grammar.error().message;
  };
  EXPECT_EQ(message("[1]", {}), "tools[0].function: not an object");
  EXPECT_EQ(message(R"([{"function": {"name": "a b"}}])", {}),
            "tools[0].function.name: not 1 to 256 letters, digits, '_', '-', '.', ':' or '/'");
  EXPECT_EQ(message(R"([{"function": {"name": "f"}}, {"function": {"name": "f"}}])", {}),
            "tools[1].function.name: 'f' is there twice");
  EXPECT_EQ(message(R"([{"function": {"name": "f", "parameters": []}}])", {}),
            "tools[0].function.parameters: not an object");
  const std::string unsupported = message(
      R"~([{"function": {"name": "f", "parameters":
            {"properties": {"a": {"type": "string", "pattern": "(?=a)"}}}}}])~",
      {});
  EXPECT_TRUE(unsupported.starts_with("tools[0].function.parameters: #/properties/a/pattern: "))
      << unsupported;
  EXPECT_EQ(message(R"([{"function": {"name": "f"}}])", {Kind::kFunction, "g"}),
            "tool_choice.function.name: no tool is named 'g'");
  EXPECT_EQ(message("[]", {Kind::kRequired, {}}),
            "tool_choice: 'required' needs at least one tool");
  std::string many = "[";
  for (std::size_t i = 0; i <= ToolGrammarOptions::kToolsMax; ++i) {
    many += (i == 0 ? "" : ",") + std::string("{}");
  }
  EXPECT_EQ(message(many + "]", {}), "tools: 1025 tools, at most 1024");
  EXPECT_EQ(GrammarOf(F::kHermes, Kind::kNone).gbnf, "");
}

TEST(ToolGrammarTest, ToolChoiceIsReadAsByOpenAi) {
  EXPECT_EQ(ParseToolChoice(Value())->kind, Kind::kAuto);
  EXPECT_EQ(ParseToolChoice(Value::None())->kind, Kind::kAuto);
  EXPECT_EQ(ParseToolChoice(Value::String("required"))->kind, Kind::kRequired);
  EXPECT_EQ(ParseToolChoice(Value::String("none"))->kind, Kind::kNone);
  const auto function =
      ParseToolChoice(ParseJson(R"({"type": "function", "function": {"name": "f"}})").value());
  EXPECT_EQ(function->kind, Kind::kFunction);
  EXPECT_EQ(function->function, "f");
  EXPECT_EQ(ParseToolChoice(Value::String("any")).error().message,
            "tool_choice: 'any' is not auto, required or none");
  EXPECT_EQ(ParseToolChoice(Value::Int(1)).error().message,
            "tool_choice: neither a text nor an object");
  EXPECT_EQ(ParseToolChoice(ParseJson(R"({"type": "function"})").value()).error().message,
            "tool_choice.function.name: missing");
}

}  // namespace
}  // namespace kvd
