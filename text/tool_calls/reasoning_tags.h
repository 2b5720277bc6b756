// ReasoningTags: the texts around a model's reasoning, in front of its answer.
#pragma once

#include <string>
#include <string_view>

namespace kvd {

struct ReasoningTags {
  std::string open;   // empty: the model writes no reasoning, or only after a prompt that opens it
  std::string close;  // empty: the model writes no reasoning
};

// Returns the tags that the text of a template contains; empty tags if it contains none.
ReasoningTags DetectReasoningTags(std::string_view chat_template);

// Whether a prompt ends inside reasoning: the model's answer then begins with reasoning.
bool EndsInReasoning(std::string_view prompt, const ReasoningTags& tags);

}  // namespace kvd
