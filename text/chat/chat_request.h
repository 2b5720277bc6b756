// A chat to format: the messages of a conversation and everything else that a template reads.
//
// Messages, tools and tool calls have the form of OpenAI's chat completions:
//
//   {"messages": [{"role": "user", "content": "Where is the kite?"},
//                 {"role": "assistant", "content": null, "reasoning_content": "...",
//                  "tool_calls": [{"id": "c1", "type": "function",
//                                  "function": {"name": "find", "arguments": "{\"x\": 1}"}}]},
//                 {"role": "tool", "tool_call_id": "c1", "content": "in the shed"}],
//    "tools": [{"type": "function", "function": {"name": "find", "parameters": {...}}}],
//    "chat_template_kwargs": {...}, "enable_thinking": false}
//
// The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/value.h"

namespace kvd {

struct ChatRequest {
  static constexpr std::size_t kMessagesMax = 4096;
  static constexpr std::size_t kBytesMax = 16u << 20;  // of the JSON text

  Value messages;                       // a list of dicts, at least one
  Value tools = Value::None();          // a list of dicts, or none
  Value documents = Value::None();      // a list of dicts, or none
  Value variables = Value::Of(Dict());  // chat_template_kwargs: further variables of the template
  std::optional<bool> enable_thinking;  // a variable that many templates read
  bool add_generation_prompt = true;    // the text ends with the header of the assistant's turn
  // The text ends with the content of the last message, an assistant's, which the model continues.
  // add_generation_prompt is then without effect.
  bool continue_final_message = false;
  // Empty: the model's template. Otherwise the name of one of the model's templates or of
  // NamedFormats(), or a Jinja program.
  std::string chat_template;
};

// Reads a request: an object with the fields above, or only its array of messages. Errors:
// kInvalidArgument, which names the field ("messages[2].role: missing") or the place in the text;
// kUnsupported: a content part that is not text; kTooLarge: a limit is exceeded.
Result<ChatRequest> ParseChatRequest(std::string_view json);

// Checks a list of messages, and that tools and documents are lists of objects. Tools without
// "function" get the form {"type": "function", "function": tool}. ParseChatRequest calls it; a
// caller that fills a ChatRequest itself calls it before Format.
Status CheckChatRequest(ChatRequest& request);

}  // namespace kvd
