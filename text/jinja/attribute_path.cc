#include "text/jinja/attribute_path.h"

#include <algorithm>

#include "text/characters.h"
#include "text/number_text.h"

namespace kvd::jinja {

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.is_missing() || attribute.is_none()) return;
  if (attribute.is_string()) {
    Add(attribute.view());
  } else {
    parts_.push_back(attribute);
  }
}

void AttributePath::Add(std::string_view dotted) {
  while (true) {
    const std::size_t end = std::min(dotted.find('.'), dotted.size());
    const std::string_view part = dotted.substr(0, end);
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    parts_.push_back(is_number ? Value::Int(ParseInteger(part).value_or(INT64_MAX))
                               : Value::String(std::string(part)));
    if (end == dotted.size()) return;
    dotted.remove_prefix(end + 1);
  }
}

std::vector<AttributePath> AttributePath::Several(const Value& attribute) {
  std::vector<AttributePath> paths;
  if (!attribute.is_string()) {
    paths.emplace_back(attribute);
    return paths;
  }
  std::string_view rest = attribute.view();
  while (true) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    AttributePath path;
    path.Add(rest.substr(0, end));
    paths.push_back(std::move(path));
    if (end == rest.size()) return paths;
    rest.remove_prefix(end + 1);
  }
}

Result<Value> AttributePath::Of(Interpreter& interpreter, Value item, const Value& fallback) const {
  for (const Value& part : parts_) {
    KVD_TRY(item, interpreter.GetItem(item, part));
    if (item.is_undefined() && !fallback.is_missing() && !fallback.is_none()) item = fallback;
  }
  return item;
}

Value IgnoreCase(const Value& value) {
  return value.is_string() ? Value::String(Lower(value.view())) : value;
}

}  // namespace kvd::jinja
