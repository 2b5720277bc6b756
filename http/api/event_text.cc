#include "http/api/event_text.h"

namespace kvd::http {

Value ObjectOf(std::initializer_list<std::pair<std::string_view, Value>> members) {
  Dict dict;
  for (const auto& [name, value] : members) dict.Set(name, value);
  return Value::Of(std::move(dict));
}

std::string EventText(std::string_view name, const Value& data) {
  std::string text = "event: ";
  return text.append(name).append("\ndata: ").append(JsonText(data)).append("\n\n");
}

}  // namespace kvd::http
