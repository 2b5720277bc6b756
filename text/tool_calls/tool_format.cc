#include "text/tool_calls/tool_format.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

namespace kvd {

// ---- tool format

namespace {

struct FormatName {
  ToolFormat format;
  std::string_view name;
};

constexpr FormatName kToolFormatNames[] = {
    {ToolFormat::kJson, "json"},
    {ToolFormat::kHermes, "hermes"},
    {ToolFormat::kQwen3Coder, "qwen3-coder"},
    {ToolFormat::kLlama3, "llama3"},
    {ToolFormat::kMistralList, "mistral-list"},
    {ToolFormat::kMistral, "mistral"},
    {ToolFormat::kHarmony, "harmony"},
    {ToolFormat::kGlm, "glm"},
    {ToolFormat::kDeepSeekR1, "deepseek-r1"},
    {ToolFormat::kDeepSeek, "deepseek"},
    {ToolFormat::kGemma4, "gemma4"},
    {ToolFormat::kLfm2, "lfm2"},
    {ToolFormat::kFunctionary, "functionary"},
    {ToolFormat::kKimi, "kimi"},
    {ToolFormat::kSeed, "seed"},
    {ToolFormat::kMiniMax, "minimax"},
    {ToolFormat::kSolar, "solar"},
    {ToolFormat::kApriel, "apriel"},
};

constexpr auto kToolFormats = [] {
  std::array<ToolFormat, std::size(kToolFormatNames)> formats{};
  for (std::size_t i = 0; i < formats.size(); ++i) formats[i] = kToolFormatNames[i].format;
  return formats;
}();

static_assert([] {
  for (std::size_t i = 0; i < std::size(kToolFormatNames); ++i) {
    if (static_cast<std::size_t>(kToolFormatNames[i].format) != i) return false;
  }
  return true;
}());

// Which texts a template of each format contains. The first row that fits decides, so that formats
// whose markers contain those of another format come first.
struct FormatSign {
  ToolFormat format;
  std::string_view text;
  std::string_view further = {};
};

constexpr FormatSign kSigns[] = {
    {ToolFormat::kHarmony, "<|channel|>", "<|call|>"},
    {ToolFormat::kGemma4, "<|tool_call>call:"},
    {ToolFormat::kDeepSeekR1, "<｜tool▁calls▁begin｜>", "```json"},
    {ToolFormat::kDeepSeek, "<｜tool▁calls▁begin｜>"},
    {ToolFormat::kMistral, "[TOOL_CALLS]", "[ARGS]"},
    {ToolFormat::kMistralList, "[TOOL_CALLS]"},
    {ToolFormat::kLfm2, "<|tool_call_start|>"},
    {ToolFormat::kLfm2, "<|tool_list_start|>"},
    {ToolFormat::kLfm2, "List of tools: [", "<|im_start|>"},
    {ToolFormat::kKimi, "<|tool_calls_section_begin|>"},
    {ToolFormat::kSolar, "<|tool_call:begin|>"},
    {ToolFormat::kMiniMax, "<minimax:tool_call>"},
    {ToolFormat::kSeed, "<seed:tool_call>"},
    {ToolFormat::kGlm, "<arg_key>", "<arg_value>"},
    {ToolFormat::kQwen3Coder, "<function=", "<parameter="},
    {ToolFormat::kFunctionary, "<function=", "</function>"},
    {ToolFormat::kApriel, "<tool_calls>["},
    {ToolFormat::kHermes, "<tool_call>", "\"arguments"},
    {ToolFormat::kLlama3, "<|python_tag|>"},
    {ToolFormat::kLlama3, "\"parameters\": dictionary of argument name"},
};

}  // namespace

std::span<const ToolFormat> ToolFormats() { return kToolFormats; }

std::string_view NameOf(ToolFormat format) {
  return kToolFormatNames[static_cast<std::size_t>(format)].name;
}

Result<ToolFormat> ToolFormatOf(std::string_view name) {
  std::string names;
  for (const FormatName& row : kToolFormatNames) {
    if (row.name == name) return row.format;
    names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return Fail(Code::kInvalidArgument, "tool_format: no format is named '", name.substr(0, 64),
              "'; the names are ", names);
}

ToolFormat DetectToolFormat(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  const auto* const sign = std::ranges::find_if(
      kSigns, [&](const FormatSign& row) { return has(row.text) && has(row.further); });
  return sign == std::end(kSigns) ? ToolFormat::kJson : sign->format;
}

// ---- reasoning tags

namespace {

struct KnownTags {
  std::string_view open;
  std::string_view close;
};

constexpr KnownTags kKnown[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"<think:opensource>", "</think:opensource>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
};

}  // namespace

ReasoningTags DetectReasoningTags(std::string_view chat_template) {
  for (const KnownTags& tags : kKnown) {
    if (chat_template.find(tags.close) == chat_template.npos) continue;
    return {std::string(tags.open), std::string(tags.close)};
  }
  return {};
}

bool EndsInReasoning(std::string_view prompt, const ReasoningTags& tags) {
  if (tags.open.empty()) return false;
  while (!prompt.empty() && (prompt.back() == '\n' || prompt.back() == ' ')) {
    prompt.remove_suffix(1);
  }
  return prompt.ends_with(tags.open);
}

}  // namespace kvd
