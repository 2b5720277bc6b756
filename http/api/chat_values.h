// The values of a chat in the format of OpenAI's chat completions, into which requests of the other
// formats (messages_reader.h, responses_reader.h) are converted.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "text/value.h"

namespace kvd::http {

// The members of `body` (an object) without those of these names.
Dict MembersExcept(const Value& body, std::initializer_list<std::string_view> names);

// A message: {"role", "content"}.
Value MessageValue(std::string_view role, Value content);

// A call in a message of the assistant. `arguments`: JSON.
Value CallValue(const std::string& id, const std::string& name, std::string arguments);

// A member of the list tools: {"type": "function", "function": function}.
Value ToolValue(Value function);

// The tool_choice that demands a call of the function.
Value ChoiceValue(const std::string& name);

}  // namespace kvd::http
