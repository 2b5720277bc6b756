#include <algorithm>

#include "text/characters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
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
