#include "text/jinja/string_methods.h"

#include <algorithm>

#include "text/characters.h"
#include "text/jinja/format_braces.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_arguments.h"
#include "text/jinja/text_classes.h"

namespace kvd::jinja {
namespace {

Result<Value> Strip(Invocation& call, bool left, bool right) {
  if (!call.Has(0) || call[0].is_none()) {
    return TextResult(call, std::string(StripText(call.subject.view(), nullptr, left, right)));
  }
  KVD_TRY(const std::string chars, TextArgument(call, 0));
  return TextResult(call, std::string(StripText(call.subject.view(), &chars, left, right)));
}

Result<Value> Justify(Invocation& call, Align align) {
  KVD_TRY(const std::int64_t width, IntegerArgument(call, 0, 0));
  std::string fill = " ";
  if (call.Has(1)) {
    if (!call[1].is_string() || call[1].text().code_points != 1) {
      return Fail(Code::kInvalidArgument, "the fill character must be exactly one character long");
    }
    KVD_TRY(fill, TextArgument(call, 1));
  }
  KVD_TRY(std::string text, PadText(call.interpreter, call.subject.text(), width, fill, align));
  return TextResult(call, std::move(text));
}

Value IsAll(const Invocation& call, CharacterClass wanted) {
  return Value::Bool(IsAllIn(wanted, call.subject.view()));
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

Result<std::string> PadText(Interpreter& interpreter, const Text& text, std::int64_t width,
                            std::string_view fill, Align align) {
  const auto length = static_cast<std::int64_t>(text.code_points);
  if (width <= length) return text.bytes;
  const std::int64_t missing = width - length;
  KVD_CHECK_OK(interpreter.budget().CheckRoom(static_cast<std::uint64_t>(missing), fill.size()));
  // Python puts the odd character to the left if the width is odd.
  const std::int64_t left = align == Align::kLeft    ? 0
                            : align == Align::kRight ? missing
                                                     : missing / 2 + (missing & width & 1);
  std::string padded;
  for (std::int64_t i = 0; i < left; ++i) padded += fill;
  padded += text.bytes;
  for (std::int64_t i = left; i < missing; ++i) padded += fill;
  return padded;
}

Result<Value> StringCapitalize(Invocation& call) {
  return TextResult(call, Capitalize(call.subject.view()));
}
Result<Value> StringCaseFold(Invocation& call) {
  return TextResult(call, CaseFold(call.subject.view()));
}
Result<Value> StringLower(Invocation& call) { return TextResult(call, Lower(call.subject.view())); }
Result<Value> StringSwapCase(Invocation& call) {
  return TextResult(call, SwapCase(call.subject.view()));
}
Result<Value> StringTitle(Invocation& call) { return TextResult(call, Title(call.subject.view())); }
Result<Value> StringUpper(Invocation& call) { return TextResult(call, Upper(call.subject.view())); }

Result<Value> StringCenter(Invocation& call) { return Justify(call, Align::kCenter); }
Result<Value> StringLeftJustify(Invocation& call) { return Justify(call, Align::kLeft); }
Result<Value> StringRightJustify(Invocation& call) { return Justify(call, Align::kRight); }

Result<Value> StringZeroFill(Invocation& call) {
  KVD_TRY(const std::int64_t width, IntegerArgument(call, 0, 0));
  const Text& text = call.subject.text();
  const bool is_signed = text.bytes.starts_with('-') || text.bytes.starts_with('+');
  const Text digits{.bytes = text.bytes.substr(is_signed ? 1 : 0),
                    .code_points = text.code_points - (is_signed ? 1 : 0)};
  KVD_TRY(const std::string filled,
          PadText(call.interpreter, digits, width - (is_signed ? 1 : 0), "0", Align::kRight));
  return TextResult(call, (is_signed ? text.bytes.substr(0, 1) : "") + filled);
}

Result<Value> StringExpandTabs(Invocation& call) {
  KVD_TRY(const std::int64_t tab, IntegerArgument(call, 0, 8));
  std::string text;
  std::int64_t column = 0;
  for (std::string_view rest = call.subject.view(); !rest.empty();) {
    const std::string_view character = rest.substr(0, CharacterBytes(rest));
    rest.remove_prefix(character.size());
    if (character == "\t") {
      const std::int64_t spaces = tab > 0 ? tab - column % tab : 0;
      KVD_CHECK_OK(
          call.interpreter.budget().CheckRoom(text.size() + static_cast<std::uint64_t>(spaces)));
      text.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else {
      text += character;
      column = character == "\n" || character == "\r" ? 0 : column + 1;
    }
  }
  return TextResult(call, std::move(text));
}

Result<Value> StringFormat(Invocation& call) {
  return FormatBraces(call.interpreter, call.subject, call.arguments);
}

Result<Value> StringIsAlpha(Invocation& call) { return IsAll(call, CharacterClass::kAlpha); }
Result<Value> StringIsDecimal(Invocation& call) { return IsAll(call, CharacterClass::kDecimal); }
Result<Value> StringIsDigit(Invocation& call) { return IsAll(call, CharacterClass::kDigit); }
Result<Value> StringIsNumeric(Invocation& call) { return IsAll(call, CharacterClass::kNumeric); }
Result<Value> StringIsSpace(Invocation& call) { return IsAll(call, CharacterClass::kSpace); }
Result<Value> StringIsAlphanumeric(Invocation& call) {
  return Value::Bool(IsAlphanumericText(call.subject.view()));
}
Result<Value> StringIsAscii(Invocation& call) {
  return Value::Bool(call.subject.text().is_ascii());
}
Result<Value> StringIsIdentifier(Invocation& call) {
  return Value::Bool(IsIdentifierText(call.subject.view()));
}
Result<Value> StringIsLower(Invocation& call) {
  return Value::Bool(IsLowerText(call.subject.view()));
}
Result<Value> StringIsPrintable(Invocation& call) {
  const std::string_view text = call.subject.view();
  return Value::Bool(text.empty() || IsAllIn(CharacterClass::kPrintable, text));
}
Result<Value> StringIsTitle(Invocation& call) {
  return Value::Bool(IsTitleText(call.subject.view()));
}
Result<Value> StringIsUpper(Invocation& call) {
  return Value::Bool(IsUpperText(call.subject.view()));
}

Result<Value> StringRemovePrefix(Invocation& call) {
  KVD_TRY(const std::string prefix, TextArgument(call, 0));
  std::string_view text = call.subject.view();
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return TextResult(call, std::string(text));
}

Result<Value> StringRemoveSuffix(Invocation& call) {
  KVD_TRY(const std::string suffix, TextArgument(call, 0));
  std::string_view text = call.subject.view();
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return TextResult(call, std::string(text));
}

Result<Value> StringStrip(Invocation& call) { return Strip(call, true, true); }
Result<Value> StringStripLeft(Invocation& call) { return Strip(call, true, false); }
Result<Value> StringStripRight(Invocation& call) { return Strip(call, false, true); }

}  // namespace kvd::jinja
