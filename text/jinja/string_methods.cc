#include "text/jinja/string_methods.h"

#include <algorithm>

#include "text/characters.h"
#include "text/jinja/format_braces.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
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

}  // namespace kvd::jinja
