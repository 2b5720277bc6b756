#include "tests/fuzz/http_program.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tests/fuzz/http_json.h"

namespace kvd::test {
namespace {

// Each addresses the type of a node of the input.
constexpr char kStepNode = 0, kRuleNode = 0, kAnswerNode = 0;

// Parts of answers: the notations of calls and of reasoning, and plain texts.
constexpr std::string_view kFragments[] = {
    "ok",
    "",
    "hello world",
    "\xc3\xa9\xf0\x9f\x98\x80",
    "<think>",
    "</think>",
    "a reason",
    "\n\n",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
    "{\"name\": \"f\", \"arguments\": {\"x\": 1}}",
    "{\"name\": \"f\", \"parameters\": {\"x\": \"\xc3\xa9\"}}",
    "[TOOL_CALLS]f[ARGS]{\"x\": 1}",
    "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}, \"id\": \"abcdefghi\"}]",
    "<|channel|>analysis<|message|>a reason<|end|><|start|>assistant",
    "<|channel|>final<|message|>an answer<|return|>",
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": 1}<|call|>",
    "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
    "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "{\"x\": 1}",
    "stop</s>more",
    "<|im_end|>",
    "</tool_call>",
    "a\xcc\x81 line\nand another one\n",
    "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {\"x\"",
    "\"}]}"};

constexpr wire::Verb kRuleVerbs[] = {
    wire::Verb::kGenerate,    wire::Verb::kTokenize,    wire::Verb::kCreate,
    wire::Verb::kFork,        wire::Verb::kDetokenize,  wire::Verb::kReadTokens,
    wire::Verb::kRemoveRange, wire::Verb::kQuery,       wire::Verb::kPublish,
    wire::Verb::kSnapshots,   wire::Verb::kAttach,      wire::Verb::kWhy,
    wire::Verb::kEmbed,       wire::Verb::kRank,        wire::Verb::kAdd,
    wire::Verb::kRetain,      wire::Verb::kDrop,        wire::Verb::kUnpublish,
    wire::Verb::kExportState, wire::Verb::kUploadState, wire::Verb::kImportState,
    wire::Verb::kList};
// The daemon sends no kTimeout, which is a code of the client.
constexpr Code kRuleCodes[] = {
    Code::kOk,          Code::kOk,       Code::kOk,          Code::kNoSpace,
    Code::kBusy,        Code::kNotFound, Code::kSessionLost, Code::kDisconnected,
    Code::kNumerical,   Code::kCorrupt,  Code::kPermission,  Code::kUnsupported,
    Code::kCancelled,   Code::kConflict, Code::kWindowLost,  Code::kInvalidArgument,
    Code::kNoTokenizer, Code::kExists,   Code::kIo,          Code::kInternal};

ScriptRule MakeRule(Choices& choices) {
  const Choices::Scope scope(choices, &kRuleNode);
  ScriptRule rule;
  const std::uint8_t verb = choices.Take();
  if (verb < 224) rule.verb = static_cast<std::uint16_t>(kRuleVerbs[verb % std::size(kRuleVerbs)]);
  rule.number = static_cast<std::uint8_t>(choices.Take() % (rule.verb == 0 ? 32 : 6));
  rule.code = kRuleCodes[choices.Below(std::size(kRuleCodes))];
  const std::uint8_t how = choices.Take();
  rule.is_cut = how % 2 == 1;
  rule.delay = static_cast<std::uint8_t>(how / 2 % 8);
  return rule;
}

ScriptedAnswer MakeAnswer(Choices& choices) {
  const Choices::Scope scope(choices, &kAnswerNode);
  ScriptedAnswer answer;
  const std::uint8_t how = choices.Take();
  answer.is_slow = (how & 1) != 0;
  answer.ends_by_limit = (how & 2) != 0;
  answer.ends_by_grammar = (how & 4) != 0;
  const std::size_t count = 1 + choices.Below(5);
  answer.text.clear();
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view fragment = kFragments[choices.Below(std::size(kFragments))];
    const std::uint8_t part = choices.Take();
    if (part >= 160 && !fragment.empty()) {
      fragment = fragment.substr(0, part % fragment.size());
      fragment.remove_suffix(IncompleteTailBytes(fragment));
    }
    answer.text += fragment;
  }
  const std::size_t cuts = choices.Below(4);
  for (std::size_t i = 0; i < cuts; ++i) {
    answer.cuts.push_back(static_cast<std::uint8_t>(1 + choices.Take() % 16));
  }
  return answer;
}

// Of the kinds of requests with many fields more often than of the others.
const RouteRow& MakeRoute(Choices& choices) {
  const std::uint8_t pick = choices.Take();
  const auto rows = RouteRows();
  constexpr std::size_t kMain = 24;
  return pick < 144 ? rows[pick % kMain] : rows[pick % rows.size()];
}

HttpStep MakeStep(Choices& choices) {
  const Choices::Scope scope(choices, &kStepNode);
  HttpStep step;
  step.route = &MakeRoute(choices);
  const std::uint8_t how = choices.Take();
  step.waits = (how & 1) == 0;
  constexpr std::uint8_t kTurnsBefore[] = {0, 0, 0, 3, 8, 20, 50, 120};
  step.turns_before = kTurnsBefore[how / 4 % std::size(kTurnsBefore)];
  step.is_slow = (how & 2) != 0;
  step.tenant = how >= 192 ? 1 : 0;
  const std::uint8_t who = choices.Take();
  if (who >= 160) step.conversation = KnownIds()[4 + who % 3u];
  const std::uint8_t gone = choices.Take();
  if (gone >= 224) step.writes_max = static_cast<std::uint8_t>(gone % 8);
  if (gone >= 208 && gone < 224) step.turns_max = static_cast<std::uint8_t>(choices.Take());
  step.restarts = gone >= 200 && gone < 208;
  if (!step.route->parts.empty()) {
    step.path_part = step.route->parts[choices.Below(step.route->parts.size())];
  }
  step.query = QueryOf(step.route->query, choices);
  if (step.route->body == nullptr) return step;
  AppendJson(*step.route->body, choices, step.body);
  const std::uint8_t damage = choices.Take();
  if (damage >= 248) Damage(choices, step.body);
  return step;
}

void MakeScript(Choices& choices, DaemonScript& script) {
  const std::uint8_t how = choices.Take();
  const std::size_t rules = how >= 224 ? how % 4u + 1 : (how >= 160 ? 1 : 0);
  for (std::size_t i = 0; i < rules; ++i) script.rules.push_back(MakeRule(choices));
  const std::size_t answers = 1 + choices.Below(3);
  for (std::size_t i = 0; i < answers; ++i) script.answers.push_back(MakeAnswer(choices));
  const std::uint8_t open = choices.Take();
  if (open < 240) return;
  script.refused_open = static_cast<std::uint8_t>(1 + open % 3);
  constexpr Code kOpenCodes[] = {Code::kDisconnected, Code::kTimeout, Code::kPermission,
                                 Code::kNoSpace};
  script.open_code = kOpenCodes[choices.Below(std::size(kOpenCodes))];
}

// The program of these choices, if its only step is for this route.
bool IsFor(const std::vector<std::uint8_t>& bytes, const RouteRow& row) {
  Choices choices(bytes);
  const HttpProgram program = MakeHttpProgram(choices);
  return program.steps.size() == 1 && program.steps.front().route == &row;
}

std::vector<std::uint8_t> UsualChoices() {
  Choices usual(std::span<const std::uint8_t>{});
  (void)MakeHttpProgram(usual);
  return std::vector<std::uint8_t>(usual.at());
}

// The usual choices with another one at `at`, so that the step is for `row`. Returns false if no
// choice there makes it so.
bool Choose(const RouteRow& row, std::size_t at, std::vector<std::uint8_t>& bytes) {
  bytes = UsualChoices();
  for (int pick = 0; pick < 256; ++pick) {
    bytes[at] = static_cast<std::uint8_t>(pick);
    if (!IsFor(bytes, row)) continue;
    Choices whole(bytes);
    (void)MakeHttpProgram(whole);
    bytes.resize(whole.at());
    return true;
  }
  return false;
}

// The place of the choice of the first step's route.
std::size_t RouteAt() {
  std::vector<std::uint8_t> bytes;
  const std::size_t end = UsualChoices().size();
  std::size_t at = 0;
  while (at < end && !Choose(RouteRows().back(), at, bytes)) ++at;
  KVD_ASSERT(at < end);
  return at;
}

}  // namespace

HttpProgram MakeHttpProgram(Choices& choices) {
  HttpProgram program;
  program.setup = choices.Take();
  const std::uint8_t how = choices.Take();
  program.keeps_journals = how >= 224;
  program.stores_responses = how % 8 != 7;
  const std::uint8_t fault = choices.Take();
  if (fault >= 240) program.file_fault = static_cast<FileFault>(1 + fault % 3);
  MakeScript(choices, program.script);
  // An input with four requests takes four times as long as one with one.
  constexpr std::uint8_t kCounts[] = {1, 2, 1, 1, 1, 3, 1, 1, 1, 2, 1, 1, 4, 1, 2, 1};
  const std::size_t steps = kCounts[choices.Below(std::size(kCounts))];
  for (std::size_t i = 0; i < steps; ++i) program.steps.push_back(MakeStep(choices));
  return program;
}

std::vector<std::vector<std::uint8_t>> UsualInputs() {
  const std::size_t at = RouteAt();
  std::vector<std::vector<std::uint8_t>> inputs;
  for (const RouteRow& row : RouteRows()) {
    KVD_ASSERT(Choose(row, at, inputs.emplace_back()));
  }
  return inputs;
}

std::string ShownProgram(const HttpProgram& program) {
  std::string text =
      Concat("setup ", int{program.setup}, program.keeps_journals ? ", journals" : "",
             ", file fault ", static_cast<int>(program.file_fault), "\n");
  for (const ScriptRule& rule : program.script.rules) {
    text += Concat("rule: verb ", rule.verb, " number ", int{rule.number}, " delay ",
                   int{rule.delay}, " code ", CodeName(rule.code), rule.is_cut ? " cut" : "", "\n");
  }
  for (const ScriptedAnswer& answer : program.script.answers) {
    text += Concat("answer", answer.is_slow ? " (slow)" : "", ": ", answer.text, "\n");
  }
  for (const HttpStep& step : program.steps) {
    text += Concat(step.restarts ? "restart; " : "",
                   step.waits ? "" : Concat("after ", int{step.turns_before}, " turns; "),
                   step.route->method, " ", step.route->pattern, " ", step.path_part);
    for (const auto& [name, value] : step.query) text += Concat(" ?", name, "=", value);
    if (!step.conversation.empty()) text += Concat(" conversation ", step.conversation);
    text += Concat(" tenant ", int{step.tenant});
    if (step.writes_max) text += Concat(" gone after ", int{*step.writes_max}, " writes");
    if (step.turns_max) text += Concat(" gone after ", int{*step.turns_max}, " turns");
    text += Concat("\n  ", std::string_view(step.body).substr(0, 3000), "\n");
  }
  return text;
}

}  // namespace kvd::test
