// How a model writes reasoning and calls of functions in its answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd {

// ToolFormat: how a model writes calls of functions in its answer.
//
// A chat template shows the format that its model was trained with. docs/tool_calls.md describes
// each format. The functions are pure.
enum class ToolFormat : std::uint8_t {
  kJson,    // {"name": ..., "arguments": {...}} in place of an answer; templates without tools
  kHermes,  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>; Qwen 2.5 and 3, Granite 4
  kQwen3Coder,   // <tool_call><function=f><parameter=k>...; Qwen 3.5, Nemotron 3
  kLlama3,       // {"name": ..., "parameters": {...}}, also after <|python_tag|>
  kMistralList,  // [TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]
  kMistral,      // [TOOL_CALLS]f[ARGS]{...}, also with [CALL_ID]
  kHarmony,      // <|channel|>commentary to=functions.f<|message|>{...}<|call|>; gpt-oss
  kGlm,          // <tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>
  kDeepSeekR1,  // <｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{...}\n```<｜tool▁call▁end｜>
  kDeepSeek,     // <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>; V3.1
  kGemma4,       // <|tool_call>call:f{k:<|"|>v<|"|>}<tool_call|>
  kLfm2,         // <|tool_call_start|>[f(k="v")]<|tool_call_end|>
  kFunctionary,  // <function=f>{...}</function>; version 3.1
  kKimi,     // <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
  kSeed,     // <seed:tool_call><function=f><parameter=k>v</parameter></function>...
  kMiniMax,  // <minimax:tool_call><invoke name="f"><parameter name="k">v</parameter>...
  kSolar,    // <|tool_call:begin|>id<|tool_call:name|>f<|tool_call:args|>{...}<|tool_call:end|>
  kApriel,   // <tool_calls>[{"name": ..., "arguments": {...}}]</tool_calls>
};

// All formats, in the order of the enum.
std::span<const ToolFormat> ToolFormats();

// The name that selects the format ("--tool-format qwen3-coder").
std::string_view NameOf(ToolFormat format);

// Errors: kInvalidArgument: no format has this name; the message lists the names.
Result<ToolFormat> ToolFormatOf(std::string_view name);

// Returns the format whose markers the text of the template contains; kJson if it contains none.
ToolFormat DetectToolFormat(std::string_view chat_template);

// ReasoningTags: the texts around a model's reasoning, in front of its answer.
struct ReasoningTags {
  std::string open;   // empty: the model writes no reasoning, or only after a prompt that opens it
  std::string close;  // empty: the model writes no reasoning
};

// Returns the tags that the text of a template contains; empty tags if it contains none.
ReasoningTags DetectReasoningTags(std::string_view chat_template);

// Whether a prompt ends inside reasoning: the model's answer then begins with reasoning.
bool EndsInReasoning(std::string_view prompt, const ReasoningTags& tags);

}  // namespace kvd
