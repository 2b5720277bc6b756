#include <algorithm>
#include <string>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
Result<Value> FilterCapitalize(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  return StringCapitalize(call);
}

Result<Value> FilterLower(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  return StringLower(call);
}

Result<Value> FilterUpper(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  return StringUpper(call);
}

Result<Value> FilterString(Invocation& call) { return StrValue(call.interpreter, call.subject); }

Result<Value> FilterSafe(Invocation& call) {
  KVD_TRY(std::string text, Str(call.interpreter, call.subject));
  return call.interpreter.budget().String(std::move(text), true);
}

Result<Value> FilterTrim(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  return StringStrip(call);
}

Result<Value> FilterReplace(Invocation& call) {
  const auto text_of = [&call](const Value& value) { return Str(call.interpreter, value); };
  KVD_TRY(const std::string text, text_of(call.subject));
  KVD_TRY(const std::string old_part, text_of(call[0]));
  KVD_TRY(const std::string new_part, text_of(call[1]));
  const bool has_count = call.Has(2) && !call[2].is_none();
  KVD_TRY(const std::int64_t count,
          has_count ? IntegerArgument(call, 2, -1) : Result<std::int64_t>(-1));
  KVD_TRY(std::string replaced, ReplaceAll(call.interpreter, text, old_part, new_part, count));
  return call.interpreter.budget().String(std::move(replaced));
}

Result<Value> FilterIndent(Invocation& call) {
  KVD_TRY(const bool indents_first, BoolArgument(call, 1, false));
  KVD_TRY(const bool indents_blank, BoolArgument(call, 2, false));
  std::string indention;
  if (call[0].is_string()) {
    indention = call[0].view();
  } else {
    KVD_TRY(const std::int64_t width, IntegerArgument(call, 0, 4));
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(width, 0));
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(count));
    indention.assign(count, ' ');
  }
  if (!call.subject.is_string()) {
    if (call.subject.is_undefined()) return FailUndefined(call.subject);
    return Fail(Code::kInvalidArgument, "indent: must be str, not ", TypeName(call.subject));
  }
  const std::string source = std::string(call.subject.view()) + "\n";
  std::string text;
  bool is_first = true;
  for (const std::string_view line : SplitLines(source)) {
    const bool is_indented = is_first ? indents_first : indents_blank || !line.empty();
    if (!is_first) text += '\n';
    if (is_indented) text += indention;
    text += line;
    is_first = false;
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(text.size()));
  }
  return TextResult(call, std::move(text));
}

}  // namespace kvd::jinja
