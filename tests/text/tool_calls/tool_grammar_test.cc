// Tool grammars: each accepts what its format's template renders and refuses other calls; what it
// accepts is parsed to the same calls.
#include "text/tool_calls/tool_grammar.h"

#include <gtest/gtest.h>

#include "tests/text/tool_calls/answer_cases.h"
#include "tests/text/tool_calls/gbnf_recognizer.h"
#include "text/json.h"

namespace kvd {
namespace {

using F = ToolFormat;
using Kind = ToolChoice::Kind;

struct GrammarCase {
  ToolFormat format;
  std::string_view one;                // weather(city Ulm, days 2), as the template renders it
  std::string_view two;                // stop(), then add(a 1, b 2.5); empty: one call only
  std::vector<std::string> refused{};  // further texts
};

const GrammarCase kCases[] = {
    {F::kJson,
     R"({"name": "weather", "arguments": {"city": "Ulm", "days": 2}})",
     R"([{"name": "stop", "arguments": {}}, {"name": "add", "arguments": {"a": 1, "b": 2.5}}])",
     {R"({"name": "moon", "arguments": {}})"}},
    {F::kHermes,
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\", \"days\": "
     "2}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
     "\"add\", \"arguments\": {\"a\": 1, \"b\": 2.5}}\n</tool_call>",
     {"<tool_call>\n{\"name\": \"moon\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"days\": 2}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": 1}}\n</tool_call>",
      "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"x\": 1}}\n</tool_call>"}},
    {F::kLlama3, R"({"name": "weather", "parameters": {"city": "Ulm", "days": 2}})", ""},
    {F::kMistralList,
     R"([TOOL_CALLS][{"name": "weather", "arguments": {"city": "Ulm", "days": 2}, "id": "abcdefgh1"}])",
     R"([TOOL_CALLS][{"name": "stop", "arguments": {}, "id": "abcdefgh1"}, {"name": "add", "arguments": {"a": 1, "b": 2.5}, "id": "abcdefgh2"}])",
     {R"([TOOL_CALLS][{"name": "stop", "arguments": {}, "id": "abc"}])"}},
    {F::kMistral, R"([TOOL_CALLS]weather[ARGS]{"city": "Ulm", "days": 2})",
     R"([TOOL_CALLS]stop[CALL_ID]abcdefgh1[ARGS]{}[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2.5})"},
    {F::kApriel,
     R"(<tool_calls>[{"name": "weather", "arguments": {"city": "Ulm", "days": 2}, "id": "c1"}]</tool_calls>)",
     R"(<tool_calls>[{"name": "stop", "arguments": {}}, {"name": "add", "arguments": {"a": 1, "b": 2.5}}]</tool_calls>)"},
    {F::kQwen3Coder,
     "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=stop>\n</function>\n</tool_call>\n<tool_call>\n<function=add>\n"
     "<parameter=a>\n1\n</parameter>\n<parameter=b>\n2.5\n</parameter>\n</function>\n</tool_call>",
     {"<tool_call>\n<function=weather>\n<parameter=days>\n2\n</parameter>\n</function>\n</"
      "tool_call>",
      "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n"
      "two\n</parameter>\n</function>\n</tool_call>",
      "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=unit>\n"
      "kelvin\n</parameter>\n</function>\n</tool_call>"}},
    {F::kGlm,
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n<arg_key>days"
     "</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
     "<tool_call>stop\n</tool_call>\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</"
     "arg_value>\n"
     "<arg_key>b</arg_key>\n<arg_value>2.5</arg_value>\n</tool_call>"},
    {F::kSeed,
     "<seed:tool_call>\n<function=weather>\n<parameter=city>Ulm</parameter>\n<parameter=days>2"
     "</parameter>\n</function>\n</seed:tool_call>",
     "<seed:tool_call>\n<function=stop>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n"
     "<function=add>\n<parameter=a>1</parameter>\n<parameter=b>2.5</parameter>\n</function>\n"
     "</seed:tool_call>"},
    {F::kMiniMax,
     "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Ulm</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"stop\">\n</invoke>\n<invoke name=\"add\">\n<parameter "
     "name=\"a\">1</parameter>\n<parameter name=\"b\">2.5</parameter>\n</invoke>\n"
     "</minimax:tool_call>"},
    {F::kDeepSeekR1,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
     "{\"city\": \"Ulm\", \"days\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n```json\n{}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1, "
     "\"b\": "
     "2.5}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {F::kDeepSeek,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Ulm\", "
     "\"days\": 2}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1, \"b\": 2.5}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>"},
    {F::kGemma4,
     "<|tool_call>call:weather{city:<|\"|>Ulm<|\"|>,days:2}<tool_call|>",
     "<|tool_call>call:stop{}<tool_call|><|tool_call>call:add{a:1,b:2.5}<tool_call|>",
     {"<|tool_call>call:weather{days:2}<tool_call|>",
      "<|tool_call>call:weather{city:<|\"|>Ulm<|\"|>,days:2.5}<tool_call|>"}},
    {F::kLfm2,
     "<|tool_call_start|>[weather(city=\"Ulm\", days=2)]<|tool_call_end|>",
     "<|tool_call_start|>[stop(), add(a=1, b=2.5)]<|tool_call_end|>",
     {"<|tool_call_start|>[weather(days=2)]<|tool_call_end|>",
      "<|tool_call_start|>[weather(city=\"Ulm\", unit=\"kelvin\")]<|tool_call_end|>"}},
    {F::kFunctionary, R"(<function=weather>{"city": "Ulm", "days": 2}</function>)",
     R"(<function=stop>{}</function><function=add>{"a": 1, "b": 2.5}</function>)"},
    {F::kKimi,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
     "<|tool_call_argument_begin|>{\"city\": \"Ulm\", \"days\": 2}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.stop:0<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{\"a\": 1, "
     "\"b\": 2.5}<|tool_call_end|><|tool_calls_section_end|>"},
    {F::kSolar,
     "<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>weather<|tool_call:args|>"
     "{\"city\": \"Ulm\", \"days\": 2}<|tool_call:end|><|calls|>",
     "<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>stop<|tool_call:args|>{}<|tool_call:end|"
     ">"
     "<|tool_call:begin|>c2<|tool_call:name|>add<|tool_call:args|>{\"a\": 1, \"b\": 2.5}"
     "<|tool_call:end|><|calls|>"},
    {F::kHarmony,
     "to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"Ulm\", "
     "\"days\": 2}<|call|>",
     ""},
};

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

TEST(ToolGrammarTest, EveryFormatHasACase) { EXPECT_EQ(std::size(kCases), ToolFormats().size()); }

TEST(ToolGrammarTest, AcceptsWhatTheTemplateRendersAndTheParserReadsIt) {
  for (const GrammarCase& row : kCases) {
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
  for (const GrammarCase& row : kCases) {
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
  for (const GrammarCase& row : kCases) {
    SCOPED_TRACE(NameOf(row.format));
    ToolGrammarOptions options;
    options.parallel_calls = false;
    const test::GbnfRecognizer recognizer(GrammarOf(row.format, Kind::kAuto, options).gbnf);
    EXPECT_TRUE(recognizer.Accepts(row.one));
    EXPECT_FALSE(recognizer.Accepts(row.two));
  }
}

TEST(ToolGrammarTest, RequiredCallsComeAfterTheReasoning) {
  for (const GrammarCase& row : kCases) {
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

TEST(ToolGrammarTest, HarmonyThinksBeforeARequiredCall) {
  const test::GbnfRecognizer recognizer(GrammarOf(F::kHarmony, Kind::kRequired).gbnf);
  const std::string call = "to=functions.stop<|channel|>commentary json<|message|>{}<|call|>";
  EXPECT_TRUE(recognizer.Accepts(" " + call));
  EXPECT_TRUE(recognizer.Accepts(
      "<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{}<|call|>"));
  EXPECT_TRUE(recognizer.Accepts(
      "<|channel|>analysis<|message|>Hm <|en.<|end|><|start|>assistant " + call));
  EXPECT_FALSE(recognizer.Accepts("<|channel|>final<|message|>Hi"));
}

TEST(ToolGrammarTest, AChosenFunctionIsTheOnlyOne) {
  for (const GrammarCase& row : kCases) {
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
            ->view(),
        text);
  }
  EXPECT_FALSE(recognizer.Accepts(call("</parameter>")));
}

TEST(ToolGrammarTest, MistakesAreNamed) {
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
      R"([{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string",
           "pattern": "(?=a)"
}
}
}
}
}])",
      {});
EXPECT_TRUE(unsupported.starts_with("tools[0].function.parameters: #/properties/a/pattern: "))
    << unsupported;
EXPECT_EQ(message(R"([{"function": {"name": "f"}}])", {Kind::kFunction, "g"}),
          "tool_choice.function.name: no tool is named 'g'");
EXPECT_EQ(message("[]", {Kind::kRequired, {}}), "tool_choice: 'required' needs at least one tool");
std::string many = "[";
for (std::size_t i = 0; i <= ToolGrammarOptions::kToolsMax; ++i) {
  many += (i == 0 ? "" : ",") + std::string("{}");
}
EXPECT_EQ(message(many + "]", {}), "tools: 1025 tools, at most 1024");
EXPECT_EQ(GrammarOf(F::kHermes, Kind::kNone).gbnf, "");
}

TEST(ToolGrammarTest, ToolChoiceIsReadAsOpenAiHasIt) {
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
