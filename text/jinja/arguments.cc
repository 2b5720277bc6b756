#include "text/jinja/arguments.h"

#include <algorithm>

#include "text/characters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/number_text.h"

namespace kvd::jinja {

// ---- text arguments
Result<std::string> TextArgument(const Invocation& call, std::size_t index) {
  const Value& argument = call[index];
  if (argument.is_undefined() && !argument.is_missing()) return FailUndefined(argument);
  if (!argument.is_string()) {
    return Fail(Code::kInvalidArgument, call.name, ": argument ", index + 1, " must be str, not ",
                TypeName(argument));
  }
  const bool needs_escape = call.subject.is_safe_string() && !argument.is_safe_string();
  return needs_escape ? EscapeHtml(argument.view()) : std::string(argument.view());
}

Result<std::int64_t> IntegerArgument(const Invocation& call, std::size_t index,
                                     std::int64_t absent) {
  if (!call.Has(index)) return absent;
  return IntegerOf(call[index], call.name);
}

Result<bool> BoolArgument(const Invocation& call, std::size_t index, bool absent) {
  if (!call.Has(index)) return absent;
  return IsTrue(call[index]);
}

Result<bool> IntegerFlagArgument(const Invocation& call, std::size_t index, bool absent) {
  KVD_TRY(const std::int64_t number, IntegerArgument(call, index, absent ? 1 : 0));
  if (number != static_cast<std::int32_t>(number)) {
    return Fail(Code::kInvalidArgument, call.name, ": an integer exceeds 32 bits");
  }
  return number != 0;
}

Result<Value> TextResult(const Invocation& call, std::string text) {
  return call.interpreter.budget().String(std::move(text), call.subject.is_safe_string());
}

Result<Value> ListResult(const Invocation& call, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    KVD_TRY(Value item, TextResult(call, std::string(part)));
    items.push_back(std::move(item));
  }
  return call.interpreter.budget().List(std::move(items));
}

Status MakeSubjectText(Invocation* call) {
  KVD_TRY(call->subject, StrValue(call->interpreter, call->subject));
  return {};
}

// ---- attribute path
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
