// TemplateTraits: in which form a chat template reads tool calls, contents and reasoning.
//
// Programs send chats in one form (OpenAI's), templates of different authors read different forms:
// the arguments of a tool call as an object or as text, contents as text or as a list of parts, the
// reasoning in one of three fields. The traits are found by rendering small chats and by looking
// for names in the template's text; AdaptMessages then gives each message the form that the
// template reads.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/template.h"
#include "text/value.h"

namespace kvd {

struct TemplateTraits {
  bool reads_object_arguments = true;  // {"what": "kite"}
  bool reads_text_arguments = true;    // "{\"what\": \"kite\"}"
  bool reads_text_content = true;      // "Where?"
  bool reads_content_parts = false;    // [{"type": "text", "text": "Where?"}]
  // The message's field for reasoning that the template's text names: "reasoning_content",
  // "reasoning" or "thinking"; empty: none of them.
  std::string reasoning_field;
  // The template has a variable "thinking" for what most templates name "enable_thinking".
  bool names_it_thinking = false;
};

// `variables`: the special tokens that the template may print.
TemplateTraits FindTraits(const jinja::Template& program, std::string_view program_text,
                          const Value& variables);

// Returns the messages in the form that the template reads. A form that the template reads is kept.
// Errors: kInvalidArgument: text arguments that must become an object and are not the text of one
// (the message names the field). REQUIRES: CheckChatRequest accepted the messages.
Result<Value> AdaptMessages(const Value& messages, const TemplateTraits& traits);

}  // namespace kvd
