#include "http/api/chat_values.h"

#include <algorithm>
#include <utility>

namespace kvd::http {

Dict MembersExcept(const Value& body, std::initializer_list<std::string_view> names) {
  Dict members;
  for (const auto& [name, value] : body.dict().items()) {
    const bool is_left_out =
        name.is_string() && std::ranges::find(names, name.view()) != names.end();
    if (!is_left_out) members.Set(name, value);
  }
  return members;
}

Value MessageValue(std::string_view role, Value content) {
  Dict message;
  message.Set("role", Value::String(std::string(role)));
  message.Set("content", std::move(content));
  return Value::Of(std::move(message));
}

Value CallValue(const std::string& id, const std::string& name, std::string arguments) {
  Dict function;
  function.Set("name", Value::String(name));
  function.Set("arguments", Value::String(std::move(arguments)));
  Dict call;
  call.Set("id", Value::String(id));
  call.Set("type", Value::String("function"));
  call.Set("function", Value::Of(std::move(function)));
  return Value::Of(std::move(call));
}

Value ToolValue(Value function) {
  Dict tool;
  tool.Set("type", Value::String("function"));
  tool.Set("function", std::move(function));
  return Value::Of(std::move(tool));
}

Value ChoiceValue(const std::string& name) {
  Dict function;
  function.Set("name", Value::String(name));
  return ToolValue(Value::Of(std::move(function)));
}

}  // namespace kvd::http
