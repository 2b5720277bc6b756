// What a model wrote stays cached if the template renders the parsed answer as the model wrote it:
// the prompt of the next turn then begins with the prompt and the answer of this turn.
//
// For each published template the test writes answers in the template's format, parses them, puts
// the message into the conversation and renders it with the results of the tools. kDifferences
// lists the answers that a template renders differently, with the text that it puts at the first
// difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "engine/model/gguf_file.h"
#include "engine/vocabulary/vocabulary.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "tests/support/shared_files.h"
#include "tests/text/tool_calls/answer_cases.h"
#include "tests/text/tool_calls/call_texts.h"
#include "text/chat/chat_formatter.h"
#include "text/json.h"
#include "text/tool_calls/answer_parser.h"
#include "text/tool_calls/json_scanner.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;

struct Difference {
  std::string_view name;  // of the template
  std::string_view answer;
  std::string_view rendered;  // the text at the first difference, in place of the answer's
};

const Difference kDifferences[] = {
    // The interpreter refuses the template (docs/text.md): it appends to a list.
    {"Kimi-K2-Instruct", "call", "refused: template line 41"},
    {"Kimi-K2-Instruct", "two calls", "refused: template line 41"},
    {"Kimi-K2-Instruct", "content", "refused: template line 41"},
    // The template renders no calls.
    {"LFM2.5-Instruct", "call", "im_end|>"},
    {"LFM2.5-Instruct", "two calls", "im_end|>"},
    {"LFM2.5-Instruct", "content", "im_end|>"},
    {"LFM2.5-Instruct", "reasoning", "|im_end|>"},
    {"LFM2.5-Instruct", "reasoning and content", "I look.<|im_end|>"},
    // The template leaves out the content in front of calls, or puts it after them.
    {"Mistral-Small-3.2-24B-Instruct-2506", "content", "[TOOL_CALLS]"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "content", "<tool_call>"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "content", "[TOOL_CALLS]"},
    {"upstage-Solar-Open-100B", "content", "<|tool_calls|>"},
    {"google-gemma-4-31B-it", "content", "tool_call>"},
    {"google-gemma-4-31B-it", "reasoning and content", "<|tool_call>"},
    // The template renders content in front of a call as reasoning.
    {"openai-gpt-oss-120b", "content", "analysis<|message|>I look."},
    // The prompt without reasoning has tags that the template leaves out of earlier turns.
    {"Qwen-QwQ-32B", "call", "ool_call>"},
    {"Qwen-QwQ-32B", "two calls", "ool_call>"},
    {"Qwen-QwQ-32B", "content", "I look."},
    {"Qwen-Qwen3-0.6B", "call", "ool_call>"},
    {"Qwen-Qwen3-0.6B", "two calls", "ool_call>"},
    {"Qwen-Qwen3-0.6B", "content", "I look."},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "call", "｜tool▁calls▁begin｜>"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "two calls", "｜tool▁calls▁begin｜>"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "content", "｜tool▁calls▁begin｜>"},
    {"google-gemma-4-31B-it", "call", "tool_call>"},
    {"google-gemma-4-31B-it", "two calls", "tool_call>"},
    // The template leaves out the reasoning in front of calls.
    {"Qwen-QwQ-32B", "reasoning", "ool_call>"},
    {"Qwen-QwQ-32B", "reasoning and content", "I look."},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "reasoning", "｜tool▁calls▁begin｜>"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "reasoning and content", "｜tool▁calls▁begin｜>"},
    {"deepseek-ai-DeepSeek-V3.1", "reasoning", "</think><"},
    {"deepseek-ai-DeepSeek-V3.1", "reasoning and content", "</think>I look."},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "reasoning", "OOL_CALLS]"},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "reasoning and content", "I look."},
    {"unsloth-Apriel-1.5", "reasoning", "\n<tool_calls>"},
    {"unsloth-Apriel-1.5", "reasoning and content", "I look."},
};

Value TextOf(std::string_view text) { return Value::String(std::string(text)); }

Value MakeObject(std::initializer_list<std::pair<std::string_view, Value>> fields) {
  Dict object;
  for (const auto& [key, value] : fields) object.Set(key, value);
  return Value::Of(std::move(object));
}

// The message as a gateway returns it to its client, and as the client sends it back.
Value MessageOf(const ParsedAnswer& answer) {
  std::vector<Value> calls;
  for (const ParsedCall& call : answer.calls) {
    calls.push_back(MakeObject(
        {{"id", TextOf(call.id)},
         {"type", TextOf("function")},
         {"function",
          MakeObject({{"name", TextOf(call.name)}, {"arguments", TextOf(call.arguments)}})}}));
  }
  Dict message;
  message.Set("role", TextOf("assistant"));
  message.Set("content", TextOf(answer.content));
  if (!answer.reasoning.empty()) message.Set("reasoning_content", TextOf(answer.reasoning));
  message.Set("tool_calls", Value::List(std::move(calls)));
  return Value::Of(std::move(message));
}

// White space that a template writes around the parts of an answer.
struct Style {
  std::string_view name;
  std::string_view before_reasoning = "";
  std::string_view in_reasoning = "\n";  // after the opening tag and before the closing one
  std::string_view after_reasoning = "\n\n";
  std::string_view before_content = "";
  std::string_view between = "";            // the content and the first call
  std::string_view before_calls = "";       // without content
  std::string_view before_only_calls = "";  // without content and reasoning, in addition
  std::string_view after_calls = "";
};

constexpr Style kStyles[] = {
    {.name = "ByteDance-Seed-OSS", .in_reasoning = "", .after_reasoning = "\n", .between = "\n\n"},
    {.name = "GLM-4.6",
     .before_reasoning = "\n",
     .in_reasoning = "",
     .after_reasoning = "",
     .before_content = "\n",
     .between = "\n",
     .before_calls = "\n"},
    {.name = "MiniMax-M2", .between = "\n", .before_calls = "\n"},
    {.name = "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
     .after_reasoning = "\n",
     .between = "\n",
     .before_only_calls = "\n",
     .after_calls = "\n"},
    {.name = "google-gemma-4-31B-it", .after_reasoning = ""},
    {.name = "mistralai-Ministral-3-14B-Reasoning-2512", .in_reasoning = "", .after_reasoning = ""},
    {.name = "Qwen-Qwen2.5-7B-Instruct", .between = "\n"},
    {.name = "Qwen-Qwen3-0.6B", .between = "\n"},
    {.name = "Qwen-QwQ-32B", .between = "\n"},
    {.name = "Qwen3-Coder", .between = "\n\n"},
    {.name = "Qwen3.5-4B", .between = "\n\n"},
    {.name = "ibm-granite-granite-4.0", .between = "\n"},
    {.name = "unsloth-Apriel-1.5", .between = "\n", .before_calls = "\n"},
};

Style StyleOf(std::string_view name) {
  const auto* const style = std::ranges::find(kStyles, name, &Style::name);
  return style == std::end(kStyles) ? Style{} : *style;
}

struct Turn {
  std::string answer;      // the model's, from the first difference on
  std::string rendered;    // the template's, from the first difference on
  std::size_t common = 0;  // bytes of the answer that the template renders again
  std::size_t tokens_lost =
      0;  // of the prompt and the answer, behind the tokens of the next prompt
};

// The vocabulary of byte pairs of the tests, in which most markers are several tokens.
const Vocabulary& TestVocabulary() {
  static const std::unique_ptr<Vocabulary> vocabulary = [] {
    auto file = GgufFile::Open("tests/data/vocabulary/byte-pair.gguf");
    auto data = file ? ReadVocabulary(*file) : std::unexpected(file.error());
    auto made = data ? Vocabulary::Create(std::move(*data)) : std::unexpected(data.error());
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }();
  return *vocabulary;
}

// The number of tokens of `written` that the tokens of `next` do not begin with.
std::size_t TokensLost(const std::string& written, const std::string& next) {
  const auto before = TestVocabulary().Tokenize(written, {});
  const auto after = TestVocabulary().Tokenize(next, {});
  EXPECT_TRUE(before && after);
  const auto differs = std::ranges::mismatch(*before, *after);
  return static_cast<std::size_t>(before->end() - differs.in1);
}

class ToolTurns {
 public:
  ToolTurns(const std::string& name, const std::string& program)
      : format_(DetectToolFormat(program)),
        tags_(DetectReasoningTags(program)),
        style_(StyleOf(name)) {
    ChatTexts texts;
    texts.tokens = {{"bos", "<s>"}, {"eos", "</s>"}};
    formatter_ = ChatFormatter::Create(texts, program, true);
  }

  // Returns nullopt if the template refuses the conversation, with the reason.
  std::optional<Turn> Run(const std::string& calls, const std::string& content,
                          const std::string& reasoning, std::string& reason) const {
    std::vector<Value> messages = FirstMessages();
    const auto prompt = Format(messages, !reasoning.empty());
    if (!prompt) {
      reason = prompt.error().message;
      return std::nullopt;
    }
    AnswerOptions options;
    options.tools = test::CaseTools();
    options.reasoning = tags_;
    options.starts_in_reasoning = EndsInReasoning(*prompt, tags_);
    const std::string answer = Answer(*prompt, calls, content, reasoning);
    const ParsedAnswer parsed = ParseAnswer(format_, options, answer);
    EXPECT_EQ(parsed.content, content) << answer;
    EXPECT_EQ(parsed.reasoning, reasoning) << answer;
    EXPECT_FALSE(parsed.calls.empty()) << answer;
    messages.push_back(MessageOf(parsed));
    for (const ParsedCall& call : parsed.calls) {
      messages.push_back(MakeObject({{"role", TextOf("tool")},
                                     {"tool_call_id", TextOf(call.id)},
                                     {"name", TextOf(call.name)},
                                     {"content", TextOf("Done.")}}));
    }
    const auto next = Format(messages, !reasoning.empty());
    if (!next) {
      reason = next.error().message;
      return std::nullopt;
    }
    const std::string written = *prompt + answer;
    const auto differs = std::ranges::mismatch(written, *next);
    const auto common = static_cast<std::size_t>(differs.in1 - written.begin());
    return Turn{.answer = written.substr(common),
                .rendered = next->substr(std::min(common, next->size()), 40),
                .common = std::max(common, prompt->size()) - prompt->size(),
                .tokens_lost = TokensLost(written, *next)};
  }

  bool AlwaysThinks() const {
    const auto prompt = Format(FirstMessages(), false);
    return prompt && EndsInReasoning(*prompt, tags_);
  }

  ToolFormat format() const { return format_; }
  const ReasoningTags& tags() const { return tags_; }

 private:
  static std::vector<Value> FirstMessages() {
    return {MakeObject({{"role", TextOf("user")}, {"content", TextOf("The weather?")}})};
  }

  Result<std::string> Format(const std::vector<Value>& messages, bool thinks) const {
    if (!formatter_) return std::unexpected(formatter_.error());
    ChatRequest request;
    request.messages = Value::List(messages);
    request.tools = test::CaseTools();
    request.enable_thinking = thinks;
    return formatter_->Format(request);
  }

  // What a model writes that was trained on the template.
  std::string Answer(const std::string& prompt, const std::string& calls,
                     const std::string& content, const std::string& reasoning) const {
    std::string text;
    if (format_ == ToolFormat::kHarmony) {
      if (!reasoning.empty()) {
        text += "<|channel|>analysis<|message|>" + reasoning + "<|end|><|start|>assistant";
      }
      if (!content.empty()) {
        text += "<|channel|>commentary<|message|>" + content + "<|end|><|start|>assistant";
      }
      return text + " " + calls;
    }
    if (!reasoning.empty()) {
      if (!EndsInReasoning(prompt, tags_)) {
        text += Concat(style_.before_reasoning, tags_.open, style_.in_reasoning);
      }
      text += Concat(reasoning, style_.in_reasoning, tags_.close, style_.after_reasoning);
    }
    if (!content.empty())
      return text +
             Concat(style_.before_content, content, style_.between, calls, style_.after_calls);
    if (reasoning.empty()) text += style_.before_only_calls;
    return text + Concat(style_.before_calls, calls, style_.after_calls);
  }

  ToolFormat format_;
  ReasoningTags tags_;
  Style style_;
  Result<ChatFormatter> formatter_ = Fail(Code::kInternal, "no template");
};

// Newer templates of Mistral write the ids of calls, others do not.
std::string WithIds(std::string calls, const std::string& program) {
  constexpr std::string_view kId = "[CALL_ID]abcdefgh1";
  for (std::size_t at = calls.find(kId); at != calls.npos; at = calls.find(kId)) {
    calls.erase(at, kId.size());
  }
  if (program.find("[CALL_ID]") == program.npos) return calls;
  constexpr std::string_view kArgs = "[ARGS]";
  for (std::size_t at = calls.find(kArgs); at != calls.npos;
       at = calls.find(kArgs, at + kId.size() + 1)) {
    calls.insert(at, kId);
  }
  return calls;
}

struct Answer {
  std::string_view name;
  std::string calls;
  std::string_view content;
  std::string_view reasoning;
};

// The answers that a model with this template writes.
std::vector<Answer> AnswersOf(const ToolTurns& turns, const std::string& program) {
  const auto texts =
      std::ranges::find(test::AllCallTexts(), turns.format(), &test::CallTexts::format);
  std::string one(texts->one);
  std::string two(texts->two);
  if (turns.format() == ToolFormat::kMistral) {
    one = WithIds(one, program);
    two = WithIds(two, program);
  }
  std::vector<Answer> answers;
  // A model whose prompt opens the reasoning always writes reasoning.
  if (!turns.AlwaysThinks()) {
    answers = {{"call", one, "", ""}, {"two calls", two, "", ""}, {"content", one, "I look.", ""}};
  }
  if (turns.format() == ToolFormat::kHarmony || !turns.tags().close.empty()) {
    answers.push_back({"reasoning", one, "", "Which city?"});
    answers.push_back({"reasoning and content", two, "I look.", "Which city?"});
  }
  std::erase_if(answers, [&](const Answer& answer) {
    // In this format only an answer that begins with a call is one.
    const bool is_no_call = turns.format() == ToolFormat::kLlama3 && !answer.content.empty();
    return answer.calls.empty() || is_no_call;
  });
  return answers;
}

std::string_view ExpectedDifference(std::string_view name, std::string_view answer) {
  const auto* const row = std::ranges::find_if(kDifferences, [&](const Difference& difference) {
    return difference.name == name && difference.answer == answer;
  });
  return row == std::end(kDifferences) ? std::string_view() : row->rendered;
}

TEST(ToolTurnsTest, PublishedTemplatesRenderTheAnswerThatWasParsed) {
  const fs::path folder = "../shared/templates";
  if (const std::string missing = test::MissingShared("templates"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  std::map<std::string, std::string> programs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path() / "template.jinja");
    programs[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t same = 0;
  std::size_t different = 0;
  struct Lost {
    std::size_t answers = 0;
    std::size_t tokens = 0;
    std::size_t tokens_max = 0;
  };
  std::map<std::string, Lost> lost;  // by the format's name
  for (const auto& [name, program] : programs) {
    const ToolTurns turns(name, program);
    if (turns.format() == ToolFormat::kJson) continue;
    for (const Answer& answer : AnswersOf(turns, program)) {
      SCOPED_TRACE(name + ": " + std::string(answer.name));
      std::string reason;
      const auto turn = turns.Run(answer.calls, std::string(answer.content),
                                  std::string(answer.reasoning), reason);
      std::string got = turn ? turn->rendered : "refused: " + reason;
      if (turn && turn->answer.empty()) got.clear();
      ++(got.empty() ? same : different);
      if (!got.empty()) {
        const std::size_t tokens = turn ? turn->tokens_lost : 0;
        std::printf("%-46s %-22s after %zu bytes, %zu tokens lost: %s\n", name.c_str(),
                    std::string(answer.name).c_str(), turn ? turn->common : 0, tokens,
                    QuotedJson(got).c_str());
        Lost& of_format = lost[std::string(NameOf(turns.format()))];
        of_format.answers += turn ? 1 : 0;
        of_format.tokens += tokens;
        of_format.tokens_max = std::max(of_format.tokens_max, tokens);
      }
      const std::string_view expected = ExpectedDifference(name, answer.name);
      EXPECT_TRUE(expected.empty() ? got.empty() : got.starts_with(expected)) << got;
    }
  }
  std::printf("%zu answers are rendered as they were written, %zu differently\n", same, different);
  for (const auto& [format, of_format] : lost) {
    std::printf("%-12s %zu answers lose %zu tokens, at most %zu\n", format.c_str(),
                of_format.answers, of_format.tokens, of_format.tokens_max);
  }
  EXPECT_EQ(different, std::size(kDifferences));
}

}  // namespace
}  // namespace kvd
