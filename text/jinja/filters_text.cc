#include <algorithm>

#include "text/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/format_percent.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
namespace {

// Fails unless the subject is a string, as Python does for a filter that uses a string's method.
Status RequireString(const Invocation& call) {
  if (call.subject.is_string()) return {};
  if (call.subject.is_undefined()) return FailUndefined(call.subject);
  return Fail(Code::kInvalidArgument, call.name, ": must be str, not ", TypeName(call.subject));
}

bool BeginsWord(std::uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' ||
         IsIn(CharacterClass::kSpace, c);
}

// The text up to its last space, or all of it.
std::string_view WithoutLastWord(std::string_view text) { return text.substr(0, text.rfind(' ')); }

}  // namespace

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

Result<Value> FilterCenter(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  if (!call.Has(0)) call.bound[0] = Value::Int(80);
  return StringCenter(call);
}

Result<Value> FilterTrim(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  return StringStrip(call);
}

Result<Value> FilterTitle(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  std::string title;
  std::string_view rest = call.subject.view();
  while (!rest.empty()) {
    // A run of separators, then a word.
    std::size_t end = 0;
    const bool is_separator = BeginsWord(CharacterOf(rest.substr(0, CharacterBytes(rest))));
    while (end < rest.size()) {
      const std::size_t bytes = CharacterBytes(rest.substr(end));
      if (BeginsWord(CharacterOf(rest.substr(end, bytes))) != is_separator) break;
      end += bytes;
    }
    const std::string_view run = rest.substr(0, end);
    const std::size_t first = CharacterBytes(run);
    title += Upper(run.substr(0, first)) + Lower(run.substr(first));
    rest.remove_prefix(end);
  }
  return call.interpreter.budget().String(std::move(title));
}

Result<Value> FilterFormat(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  const Arguments& arguments = call.arguments;
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return Fail(Code::kInvalidArgument,
                "can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) {
    return FormatPercent(call.interpreter, call.subject, Value::Tuple(arguments.positional));
  }
  Dict values;
  for (const auto& [name, value] : arguments.named) values.Set(name, value);
  return FormatPercent(call.interpreter, call.subject, Value::Of(std::move(values)));
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
  for (const std::string_view line : SplitLines(source, false)) {
    const bool is_indented = is_first ? indents_first : indents_blank || !line.empty();
    if (!is_first) text += '\n';
    if (is_indented) text += indention;
    text += line;
    is_first = false;
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(text.size()));
  }
  return TextResult(call, std::move(text));
}

Result<Value> FilterTruncate(Invocation& call) {
  KVD_TRY(const std::int64_t length, IntegerArgument(call, 0, 255));
  KVD_TRY(const bool kills_words, BoolArgument(call, 1, false));
  std::string end = "...";
  if (call.Has(2)) {
    KVD_TRY(end, TextArgument(call, 2));
  }
  const bool has_leeway = call.Has(3) && !call[3].is_none();
  KVD_TRY(const std::int64_t leeway,
          has_leeway ? IntegerArgument(call, 3, 5) : Result<std::int64_t>(5));
  const auto end_length = static_cast<std::int64_t>(CodePointsOf(end).size());
  if (length < end_length || leeway < 0) {
    return Fail(Code::kInvalidArgument, "truncate: length ", length, " or leeway ", leeway,
                " is too small");
  }
  KVD_TRY(const std::optional<std::int64_t> count, LengthOf(call.subject));
  if (!count) {
    return Fail(Code::kInvalidArgument, "object of type '", TypeName(call.subject),
                "' has no len()");
  }
  if (*count <= length || *count - length <= leeway) return call.subject;
  KVD_CHECK_OK(RequireString(call));
  const Text& text = call.subject.text();
  const std::string_view kept =
      std::string_view(text.bytes)
          .substr(0, OffsetOf(text.bytes, static_cast<std::size_t>(length - end_length)));
  return TextResult(call, std::string(kills_words ? kept : WithoutLastWord(kept)) + end);
}

Result<Value> FilterWordCount(Invocation& call) {
  KVD_CHECK_OK(MakeSubjectText(&call));
  std::int64_t count = 0;
  bool is_in_word = false;
  for (const std::uint32_t c : CodePointsOf(call.subject.view())) {
    const bool is_word =
        c == '_' || IsIn(CharacterClass::kAlpha, c) || IsIn(CharacterClass::kNumeric, c);
    if (is_word && !is_in_word) ++count;
    is_in_word = is_word;
  }
  return Value::Int(count);
}

}  // namespace kvd::jinja
