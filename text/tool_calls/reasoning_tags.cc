#include "text/tool_calls/reasoning_tags.h"

namespace kvd {
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
