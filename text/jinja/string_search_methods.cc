// Methods that search a string. Positions are counted in characters, the search runs over bytes.
#include <algorithm>

#include "text/characters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
namespace {

// The part of the subject that the arguments `start` and `end` choose; none if start is after end.
struct Window {
  bool is_none = false;
  std::size_t offset = 0;  // bytes before it
  std::string_view text;
};

Result<Window> FindWindow(const Invocation& call) {
  const Text& text = call.subject.text();
  const auto count = static_cast<std::int64_t>(text.code_points);
  const auto bound = [&](std::size_t index, std::int64_t absent) -> Result<std::int64_t> {
    if (!call.Has(index) || call[index].is_none()) return absent;
    KVD_TRY(const std::int64_t given, IntegerOf(call[index], call.name));
    return given < 0 ? std::max<std::int64_t>(given + count, 0) : given;
  };
  KVD_TRY(const std::int64_t start, bound(1, 0));
  KVD_TRY(std::int64_t end, bound(2, count));
  end = std::min(end, count);
  if (start > end) return Window{.is_none = true, .offset = 0, .text = {}};
  const std::string_view bytes = text.bytes;
  const bool is_whole = start == 0 && end == count;
  if (is_whole) return Window{.is_none = false, .offset = 0, .text = bytes};
  const auto first = static_cast<std::size_t>(start);
  const auto length = static_cast<std::size_t>(end - start);
  if (text.is_ascii())
    return Window{.is_none = false, .offset = first, .text = bytes.substr(first, length)};
  const std::size_t offset = OffsetOf(bytes, first);
  const std::string_view rest = bytes.substr(offset);
  return Window{.is_none = false, .offset = offset, .text = rest.substr(0, OffsetOf(rest, length))};
}

// The text to search for: an argument, which markup does not escape.
Result<std::string_view> Wanted(const Invocation& call) {
  if (call[0].is_string()) return call[0].view();
  if (call[0].is_undefined()) return FailUndefined(call[0]);
  return Fail(Code::kInvalidArgument, call.name, ": must be str, not ", TypeName(call[0]));
}

std::int64_t CharactersBefore(const Text& text, std::size_t offset) {
  if (text.is_ascii()) return static_cast<std::int64_t>(offset);
  return std::ranges::count_if(std::string_view(text.bytes).substr(0, offset), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  });
}

// The position of the first or last occurrence; -1 if there is none.
Result<std::int64_t> Find(Invocation& call, bool is_last) {
  KVD_TRY(const std::string_view wanted, Wanted(call));
  KVD_TRY(const Window window, FindWindow(call));
  KVD_CHECK_OK(call.interpreter.budget().Step(1 + window.text.size() / 64));
  if (window.is_none) return -1;
  const std::size_t found = is_last ? window.text.rfind(wanted) : window.text.find(wanted);
  if (found == std::string_view::npos) return -1;
  return CharactersBefore(call.subject.text(), window.offset + found);
}

Result<Value> TestEnd(Invocation& call, bool is_prefix) {
  KVD_TRY(const Window window, FindWindow(call));
  const auto fits = [&](const Value& wanted) -> Result<bool> {
    if (wanted.is_undefined()) return FailUndefined(wanted);
    if (!wanted.is_string()) {
      return Fail(Code::kInvalidArgument, call.name,
                  " first arg must be str or a tuple of str, not ", TypeName(wanted));
    }
    if (window.is_none) return false;
    return is_prefix ? window.text.starts_with(wanted.view())
                     : window.text.ends_with(wanted.view());
  };
  if (!call[0].is_tuple()) {
    KVD_TRY(const bool is_fitting, fits(call[0]));
    return Value::Bool(is_fitting);
  }
  for (const Value& wanted : call[0].items()) {
    KVD_TRY(const bool is_fitting, fits(wanted));
    if (is_fitting) return Value::Bool(true);
  }
  return Value::Bool(false);
}

}  // namespace

Result<Value> StringFind(Invocation& call) {
  KVD_TRY(const std::int64_t found, Find(call, false));
  return Value::Int(found);
}
Result<Value> StringFindLast(Invocation& call) {
  KVD_TRY(const std::int64_t found, Find(call, true));
  return Value::Int(found);
}
Result<Value> StringStartsWith(Invocation& call) { return TestEnd(call, true); }
Result<Value> StringEndsWith(Invocation& call) { return TestEnd(call, false); }

Result<std::string> ReplaceAll(Interpreter& interpreter, std::string_view text,
                               std::string_view old_part, std::string_view new_part,
                               std::int64_t count_max) {
  KVD_CHECK_OK(interpreter.budget().Step(1 + text.size() / 64));
  std::string result;
  std::int64_t count = 0;
  const auto may_replace = [&] { return count_max < 0 || count < count_max; };
  const auto check_room = [&] { return interpreter.budget().CheckRoom(result.size()); };
  if (old_part.empty()) {  // the new part goes before each character and to the end
    while (may_replace()) {
      result += new_part;
      ++count;
      KVD_CHECK_OK(check_room());
      if (text.empty()) return result;
      const std::size_t bytes = CharacterBytes(text);
      result += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
    return result.append(text);
  }
  for (std::size_t found; may_replace() && (found = text.find(old_part)) != std::string_view::npos;
       ++count) {
    result.append(text.substr(0, found)).append(new_part);
    text.remove_prefix(found + old_part.size());
    KVD_CHECK_OK(check_room());
  }
  return result.append(text);
}

Result<Value> StringReplace(Invocation& call) {
  KVD_TRY(const std::string old_part, TextArgument(call, 0));
  KVD_TRY(const std::string new_part, TextArgument(call, 1));
  KVD_TRY(const std::int64_t count_max, IntegerArgument(call, 2, -1));
  KVD_TRY(std::string text,
          ReplaceAll(call.interpreter, call.subject.view(), old_part, new_part, count_max));
  return TextResult(call, std::move(text));
}

}  // namespace kvd::jinja
