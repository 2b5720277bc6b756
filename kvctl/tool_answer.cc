#include "kvctl/tool_answer.h"

#include <sys/random.h>

#include <cstdint>
#include <utility>

namespace kvd::kvctl {
namespace {

ToolChoice ChoiceOf(const std::string& text) {
  if (text == "auto") return {.kind = ToolChoice::Kind::kAuto, .function = {}};
  if (text == "required") return {.kind = ToolChoice::Kind::kRequired, .function = {}};
  if (text == "none") return {.kind = ToolChoice::Kind::kNone, .function = {}};
  return {.kind = ToolChoice::Kind::kFunction, .function = text};
}

// The markers that are one token of the vocabulary. If such a token is a control token, it has no
// text that a grammar could read.
Result<std::vector<MarkerToken>> TokensOfMarkers(const Client& client,
                                                 const std::vector<std::string>& markers) {
  std::vector<MarkerToken> found;
  for (const std::string& marker : markers) {
    KVD_TRY(const std::vector<TokenId> tokens, client.Tokenize(marker, wire::kFlagParseSpecial));
    if (tokens.size() == 1) found.push_back({.text = marker, .token = tokens[0]});
  }
  return found;
}

std::uint64_t IdSeed() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
  return seed;
}

}  // namespace

Result<ToolAnswer> ToolAnswer::Create(const Client& client, const ChatPrompt& chat,
                                      const RunOptions& options) {
  ToolFormat format = DetectToolFormat(chat.chat_template);
  if (!options.tool_format.empty()) {
    KVD_TRY(format, ToolFormatOf(options.tool_format));
  }
  const ToolChoice choice = ChoiceOf(options.tool_choice);
  const ReasoningTags reasoning = DetectReasoningTags(chat.chat_template);
  const bool in_reasoning = EndsInReasoning(chat.text, reasoning);
  KVD_TRY(std::vector<MarkerToken> tokens,
          TokensOfMarkers(client, GrammarMarkers(format, reasoning)));
  KVD_TRY(ToolGrammar grammar, MakeToolGrammar(format, chat.tools, choice,
                                               {.parallel_calls = !options.one_call,
                                                .starts_in_reasoning = in_reasoning,
                                                .reasoning = reasoning,
                                                .tokens = std::move(tokens)}));
  AnswerParser parser(format, {.tools = chat.tools,
                               .parses_calls = choice.kind != ToolChoice::Kind::kNone,
                               .starts_in_reasoning = in_reasoning,
                               .reasoning = reasoning,
                               .id_seed = IdSeed()});
  return ToolAnswer(std::move(grammar), std::move(parser));
}

std::vector<wire::TriggerView> ToolAnswer::triggers() const {
  std::vector<wire::TriggerView> views;
  for (const GrammarStart& start : grammar_.triggers) {
    views.push_back({.token = start.token, .text = start.text});
  }
  return views;
}

std::string ToolAnswer::Show(const std::vector<AnswerEvent>& events) {
  parsed_.Add(events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kCallBegin) {
      shown += "\n" + event.text + "(";
    } else {
      shown += event.text;
      if (event.kind == AnswerEvent::Kind::kCallEnd) shown += ")";
    }
  }
  return shown;
}

std::string ToolAnswer::Feed(std::string_view text) {
  std::vector<AnswerEvent> events;
  parser_.Feed(text, events);
  return Show(events);
}

std::string ToolAnswer::Finish() {
  std::vector<AnswerEvent> events;
  parser_.Finish(events);
  return Show(events);
}

void ToolAnswer::SetMembers(Json& json) const {
  Json calls = Json::Array();
  for (const ParsedCall& call : parsed_.calls) {
    Json one = Json::Object();
    one.Set("id", call.id)
        .Set("name", call.name)
        .Set("arguments", call.arguments)
        .Set("is_complete", call.is_complete);
    calls.Add(std::move(one));
  }
  json.Set("content", parsed_.content)
      .Set("reasoning", parsed_.reasoning)
      .Set("tool_calls", std::move(calls));
}

}  // namespace kvd::kvctl
