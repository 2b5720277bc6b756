// Tests the calls of functions with tool_choice auto and a real daemon: the model writes freely,
// and from the marker of a call on, the lazy grammar of the tools holds it. The marker is a control
// token, as in most vocabularies; a bias makes the bundled model draw one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/e2e/support/served_daemon.h"
#include "text/json.h"
#include "text/tool_calls/answer_parser.h"
#include "text/tool_calls/tool_grammar.h"

namespace kvd {
namespace {

constexpr const char* kOneTool = R"([{"type": "function", "function": {"name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome", "Lima"]},
    "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city", "days"]}}},
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object",
    "properties": {}}}}])";
// This token of the bundled vocabulary takes the place of the control token <tool_call>.
constexpr TokenId kMarker = 500;
constexpr const char* kMarkerText = "<tool_call>";

class ToolChoiceTest : public test::ServedDaemonTest {
 protected:
  struct Drawn {
    std::vector<TokenId> tokens;
    std::uint32_t finish = 0;
  };

  ToolChoiceTest() {
    auto tools = ParseJson(kOneTool);
    EXPECT_TRUE(tools) << tools.error().message;
    tools_ = std::move(*tools);
  }

  ToolGrammar GrammarFor(ToolChoice::Kind kind) const {
    ToolGrammarOptions options;
    options.parallel_calls = false;
    options.tokens = {{kMarkerText, kMarker}};
    auto grammar = MakeToolGrammar(ToolFormat::kHermes, tools_,
                                   ToolChoice{.kind = kind, .function = {}}, options);
    EXPECT_TRUE(grammar) << grammar.error().message;
    return std::move(*grammar);
  }
  static Drawn Draw(const Client& client, const ToolGrammar& grammar, std::uint64_t seed) {
    std::vector<wire::TriggerView> triggers;
    for (const GrammarStart& start : grammar.triggers) {
      triggers.push_back({.token = start.token, .text = start.text});
    }
    const std::vector<TokenId> prompt = {10, 20, 30, 40};
    const wire::LogitBias bias = {kMarker, 4.0f};
    SamplingParams sampling = DefaultSamplingAt(2.0f);
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    const auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    auto generation = sequence->Generate({.tokens = prompt,
                                          .predict_max = 600,
                                          .sampling = sampling,
                                          .seed = seed,
                                          .flags = wire::kIgnoreEos,
                                          .biases = {&bias, 1},
                                          .grammar = grammar.gbnf,
                                          .triggers = triggers});
    EXPECT_TRUE(generation) << generation.error().message;
    Drawn drawn;
    for (;;) {
      const auto piece = generation->Next();
      EXPECT_TRUE(piece) << piece.error().message;
      if (!piece) return drawn;
      if (!*piece) break;
      drawn.tokens.insert(drawn.tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    }
    drawn.finish = generation->result().finish;
    return drawn;
  }
  // The text of the tokens with the text of the marker, without an end token.
  static std::string TextOf(const Client& client, const std::vector<TokenId>& tokens) {
    std::string text;
    auto begin = tokens.begin();
    for (;;) {
      const auto marker = std::find(begin, tokens.end(), kMarker);
      text += client.Detokenize(std::vector<TokenId>(begin, marker)).value_or("");
      if (marker == tokens.end()) return text;
      text += kMarkerText;
      begin = marker + 1;
    }
  }
  // Checks that the call is one of the tools with arguments of its schema.
  static void ExpectValid(const ParsedCall& call) {
    const auto arguments = ParseJson(call.arguments);
    ASSERT_TRUE(arguments) << call.arguments;
    if (call.name == "stop") {
      EXPECT_EQ(arguments->dict().size(), 0u) << call.arguments;
      return;
    }
    EXPECT_EQ(call.name, "weather");
    EXPECT_THAT(call.arguments,
                testing::MatchesRegex("\\{\\s*\"city\"\\s*:\\s*\"(Oslo|Rome|Lima)\"\\s*,\\s*"
                                      "\"days\"\\s*:\\s*[1-9]\\s*\\}"));
  }

  Value tools_;
};

TEST_F(ToolChoiceTest, WithAutoTheModelWritesFreelyUntilItBeginsACall) {
  const ToolGrammar grammar = GrammarFor(ToolChoice::Kind::kAuto);
  ASSERT_TRUE(grammar.is_lazy());
  const Client client = Connect();
  int with_content = 0;
  int without_call = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const Drawn drawn = Draw(client, grammar, seed);
    const std::string text = TextOf(client, drawn.tokens);
    AnswerOptions options;
    options.tools = tools_;
    const ParsedAnswer parsed = ParseAnswer(ToolFormat::kHermes, options, text);
    const std::size_t marker = text.find(kMarkerText);
    if (marker == text.npos) {
      EXPECT_TRUE(parsed.calls.empty());
      ++without_call;
      continue;
    }
    // Without end tokens, the grammar ends the answer after its call.
    EXPECT_EQ(drawn.finish, std::uint32_t{wire::kFinishGrammar});
    ASSERT_EQ(parsed.calls.size(), 1u) << text;
    ExpectValid(parsed.calls.front());
    with_content += parsed.content.empty() ? 0 : 1;
  }
  EXPECT_LT(without_call, 10);
  EXPECT_GT(with_content, 10) << "the grammar does not begin with the answer";
}

TEST_F(ToolChoiceTest, WithRequiredTheAnswerIsACall) {
  const ToolGrammar grammar = GrammarFor(ToolChoice::Kind::kRequired);
  ASSERT_FALSE(grammar.is_lazy());
  const Client client = Connect();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Drawn drawn = Draw(client, grammar, seed);
    AnswerOptions options;
    options.tools = tools_;
    const std::string text = TextOf(client, drawn.tokens);
    const ParsedAnswer parsed = ParseAnswer(ToolFormat::kHermes, options, text);
    EXPECT_EQ(parsed.content, "") << text;
    ASSERT_EQ(parsed.calls.size(), 1u) << text;
    ExpectValid(parsed.calls.front());
  }
}

}  // namespace
}  // namespace kvd
