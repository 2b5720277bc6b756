#include "text/jinja/text_arguments.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {

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

}  // namespace kvd::jinja
