#include "text/jinja/string_methods.h"

#include <algorithm>

#include "text/characters.h"
#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {

// ---- string methods

namespace {

Result<Value> Strip(Invocation& call, bool left, bool right) {
  if (!call.Has(0) || call[0].is_none()) {
    return TextResult(call, std::string(StripText(call.subject.view(), nullptr, left, right)));
  }
  KVD_TRY(const std::string chars, TextArgument(call, 0));
  return TextResult(call, std::string(StripText(call.subject.view(), &chars, left, right)));
}

}  // namespace

std::string_view StripText(std::string_view text, const std::string* chars, bool left, bool right) {
  if (chars == nullptr) {
    if (left) text = TrimLeft(text);
    return right ? TrimRight(text) : text;
  }
  const std::vector<std::uint32_t> unwanted = CodePointsOf(*chars);
  const auto is_unwanted = [&unwanted](std::string_view character) {
    return std::ranges::find(unwanted, CharacterOf(character)) != unwanted.end();
  };
  while (left && !text.empty()) {
    const std::string_view first = text.substr(0, CharacterBytes(text));
    if (!is_unwanted(first)) break;
    text.remove_prefix(first.size());
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (!is_unwanted(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

Result<Value> StringCapitalize(Invocation& call) {
  return TextResult(call, Capitalize(call.subject.view()));
}
Result<Value> StringLower(Invocation& call) { return TextResult(call, Lower(call.subject.view())); }
Result<Value> StringUpper(Invocation& call) { return TextResult(call, Upper(call.subject.view())); }

Result<Value> StringFormat(Invocation& call) {
  return FormatBraces(call.interpreter, call.subject, call.arguments);
}

Result<Value> StringStrip(Invocation& call) { return Strip(call, true, true); }
Result<Value> StringStripLeft(Invocation& call) { return Strip(call, true, false); }
Result<Value> StringStripRight(Invocation& call) { return Strip(call, false, true); }

// ---- string search methods
// Methods that search a string. Positions are counted in characters, the search runs over bytes.

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

// ---- string split methods

namespace {

using SplitParts = std::vector<std::string_view>;

bool IsLineEnd(std::uint32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsSplittingSpace(std::string_view character) { return IsSpace(CharacterOf(character)); }

// The bytes up to the first white space.
std::size_t WordBytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = CharacterBytes(text.substr(at));
    if (IsSplittingSpace(text.substr(at, bytes))) break;
    at += bytes;
  }
  return at;
}

// The offset of the word that ends the text.
std::size_t LastWordOffset(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t before = begin - 1;
    while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xc0) == 0x80) --before;
    if (IsSplittingSpace(text.substr(before, begin - before))) break;
    begin = before;
  }
  return begin;
}

SplitParts SplitWords(std::string_view text, std::int64_t count_max) {
  SplitParts parts;
  text = TrimLeft(text);
  while (!text.empty()) {
    if (count_max >= 0 && static_cast<std::int64_t>(parts.size()) == count_max) {
      parts.push_back(text);
      break;
    }
    const std::size_t bytes = WordBytes(text);
    parts.push_back(text.substr(0, bytes));
    text = TrimLeft(text.substr(bytes));
  }
  return parts;
}

SplitParts SplitLastWords(std::string_view text, std::int64_t count_max) {
  SplitParts parts;
  text = TrimRight(text);
  while (!text.empty()) {
    if (count_max >= 0 && static_cast<std::int64_t>(parts.size()) == count_max) {
      parts.push_back(text);
      break;
    }
    const std::size_t begin = LastWordOffset(text);
    parts.push_back(text.substr(begin));
    text = TrimRight(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
}

SplitParts SplitAt(std::string_view text, std::string_view separator, std::int64_t count_max,
                   bool is_last) {
  SplitParts parts;
  while (count_max < 0 || static_cast<std::int64_t>(parts.size()) < count_max) {
    const std::size_t found = is_last ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    parts.push_back(is_last ? text.substr(found + separator.size()) : text.substr(0, found));
    text = is_last ? text.substr(0, found) : text.substr(found + separator.size());
  }
  parts.push_back(text);
  if (is_last) std::ranges::reverse(parts);
  return parts;
}

Result<Value> Split(Invocation& call, bool is_last) {
  const std::string_view text = call.subject.view();
  KVD_CHECK_OK(call.interpreter.budget().Step(1 + text.size() / 64));
  KVD_TRY(const std::int64_t count_max, IntegerArgument(call, 1, -1));
  if (!call.Has(0) || call[0].is_none()) {
    return ListResult(call,
                      is_last ? SplitLastWords(text, count_max) : SplitWords(text, count_max));
  }
  KVD_TRY(const std::string separator, TextArgument(call, 0));
  if (separator.empty()) return Fail(Code::kInvalidArgument, "empty separator");
  KVD_CHECK_OK(call.interpreter.budget().CheckRoom(1 + text.size() / separator.size()));
  return ListResult(call, SplitAt(text, separator, count_max, is_last));
}

}  // namespace

std::vector<std::string_view> SplitLines(std::string_view text) {
  SplitParts lines;
  std::size_t begin = 0, at = 0;
  while (at < text.size()) {
    const std::size_t bytes = CharacterBytes(text.substr(at));
    if (!IsLineEnd(CharacterOf(text.substr(at, bytes)))) {
      at += bytes;
      continue;
    }
    lines.push_back(text.substr(begin, at - begin));
    at += text.substr(at).starts_with("\r\n") ? 2 : bytes;
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

Result<Value> StringSplit(Invocation& call) { return Split(call, false); }
Result<Value> StringSplitLast(Invocation& call) { return Split(call, true); }
Result<Value> StringJoin(Invocation& call) {
  KVD_TRY(const std::vector<Value> items, ItemsOf(call.interpreter, call[0]));
  std::string text;
  bool is_first = true;
  for (const Value& item : items) {
    if (!std::exchange(is_first, false)) text += call.subject.view();
    if (!item.is_string()) {
      return Fail(Code::kInvalidArgument, "sequence item: expected str instance, ", TypeName(item),
                  " found");
    }
    const bool needs_escape = call.subject.is_safe_string() && !item.is_safe_string();
    text += needs_escape ? EscapeHtml(item.view()) : std::string(item.view());
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(text.size()));
  }
  return TextResult(call, std::move(text));
}

}  // namespace kvd::jinja
