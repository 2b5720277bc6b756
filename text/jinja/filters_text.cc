// Filters that make texts and numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "text/characters.h"
#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/json.h"
#include "text/number_text.h"

namespace kvd::jinja {

// ---- filters text
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

// ---- filters number

namespace {

constexpr double kIntegerEnd = 9223372036854775808.0;  // 2^63

std::unexpected<Error> FailTooLarge() {
  return Fail(Code::kUnsupported, "an integer exceeds 64 bits");
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The text of a number without white space around it and without underscores; none if an underscore
// is not between two digits.
std::optional<std::string> PlainNumber(std::string_view text) {
  std::string plain;
  bool was_digit = false, was_underscore = false;
  for (const char c : Trim(text)) {
    if (c == '_') {
      if (!was_digit) return std::nullopt;
      was_digit = false;
      was_underscore = true;
      continue;
    }
    plain += c;
    was_digit = IsAlphanumeric(c);
    if (std::exchange(was_underscore, false) && !was_digit) return std::nullopt;
  }
  if (was_underscore) return std::nullopt;
  return plain;
}

// int(text, base): none if the text is no integer of the base. Errors: kUnsupported: too large.
Result<std::optional<std::int64_t>> IntegerFromText(std::string_view text, std::int64_t base) {
  const std::optional<std::string> plain = PlainNumber(text);
  if (!plain || plain->empty()) return std::optional<std::int64_t>();
  std::string digits = *plain;
  std::string sign;
  if (digits[0] == '-' || digits[0] == '+') {
    sign = digits[0] == '-' ? "-" : "";
    digits.erase(0, 1);
  }
  const auto take_prefix = [&](char letter, std::int64_t own_base) {
    if ((base != own_base && base != 0) || digits.size() < 3 || digits[0] != '0' ||
        (digits[1] | 0x20) != letter) {
      return;
    }
    digits.erase(0, 2);
    base = own_base;
  };
  take_prefix('x', 16);
  take_prefix('o', 8);
  take_prefix('b', 2);
  if (base == 0) {
    const bool has_leading_zero =
        digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos;
    if (has_leading_zero) return std::optional<std::int64_t>();
    base = 10;
  }
  const auto is_digit = [base](char c) {
    const int value = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : 99;
    return value < base;
  };
  if (digits.empty() || !std::ranges::all_of(digits, is_digit))
    return std::optional<std::int64_t>();
  const std::optional<std::int64_t> number = ParseInteger(sign + digits, static_cast<int>(base));
  if (!number) return FailTooLarge();
  return number;
}

// float(text): none if the text is no number.
std::optional<double> FloatFromText(std::string_view text) {
  std::optional<std::string> plain = PlainNumber(text);
  if (!plain) return std::nullopt;
  const std::string lower = Lower(*plain);
  const std::string_view unsigned_text =
      std::string_view(lower).substr(lower.find_first_of("+-") == 0 ? 1 : 0);
  const bool is_negative = lower.starts_with('-');
  if (unsigned_text == "inf" || unsigned_text == "infinity") {
    const double infinity = std::numeric_limits<double>::infinity();
    return is_negative ? -infinity : infinity;
  }
  if (unsigned_text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (lower.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  return ParseFloat(lower);
}

Result<Value> IntegerFromFloat(double number) {
  if (std::isinf(number)) {
    return Fail(Code::kInvalidArgument, "cannot convert float infinity to integer");
  }
  if (!(number >= -kIntegerEnd && number < kIntegerEnd)) return FailTooLarge();
  return Value::Int(static_cast<std::int64_t>(number));
}

}  // namespace

Result<Value> FilterInt(Invocation& call) {
  // Like a text that is no integer, a base that is none leaves the text to float().
  const std::int64_t base = !call.Has(1) ? 10 : call[1].is_integral() ? call[1].integer() : -1;
  Value fallback = call.Has(0) ? call[0] : Value::Int(0);
  const Value& value = call.subject;
  if (value.is_undefined()) return FailUndefined(value);
  if (value.is_integral()) return Value::Int(value.integer());
  if (value.is_float()) {
    return std::isnan(value.real()) ? Result<Value>(fallback) : IntegerFromFloat(value.real());
  }
  if (!value.is_string()) return fallback;
  if (base == 0 || (base >= 2 && base <= 36)) {
    KVD_TRY(const std::optional<std::int64_t> integer, IntegerFromText(value.view(), base));
    if (integer) return Value::Int(*integer);
  }
  const std::optional<double> number = FloatFromText(value.view());
  if (!number || std::isnan(*number)) return fallback;
  return IntegerFromFloat(*number);
}

Result<Value> FilterFloat(Invocation& call) {
  Value fallback = call.Has(0) ? call[0] : Value::Float(0);
  const Value& value = call.subject;
  if (value.is_undefined()) return FailUndefined(value);
  if (value.is_number()) return Value::Float(value.number());
  if (!value.is_string()) return fallback;
  const std::optional<double> number = FloatFromText(value.view());
  return number ? Value::Float(*number) : fallback;
}

// ---- filter tojson
// The filter tojson: Python's json.dumps() without escapes of ASCII and HTML.

namespace {

constexpr std::int64_t kJsonIndentMax = 100;

Status SetIndent(const Invocation& call, const Value& indent, JsonStyle* style) {
  if (indent.is_missing() || indent.is_none()) return {};
  style->item_separator = ",";
  if (indent.is_string()) {
    style->indent = std::string(indent.view());
    return {};
  }
  KVD_TRY(const std::int64_t width, IntegerOf(indent, call.name));
  if (width > kJsonIndentMax) {
    return Fail(Code::kUnsupported, "tojson: an indent of more than ", kJsonIndentMax);
  }
  style->indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  return {};
}

Status SetSeparators(const Value& separators, JsonStyle* style) {
  if (separators.is_missing() || separators.is_none()) return {};
  const bool is_pair = separators.is_sequence() && separators.items().size() == 2 &&
                       separators.items()[0].is_string() && separators.items()[1].is_string();
  if (!is_pair) return Fail(Code::kInvalidArgument, "tojson: separators must be two strings");
  style->item_separator = separators.items()[0].view();
  style->key_separator = separators.items()[1].view();
  return {};
}

}  // namespace

Result<Value> FilterToJson(Invocation& call) {
  JsonStyle style;
  KVD_TRY(style.escape_non_ascii, BoolArgument(call, 0, false));
  KVD_CHECK_OK(SetIndent(call, call[1], &style));
  KVD_CHECK_OK(SetSeparators(call[2], &style));
  KVD_TRY(style.sort_keys, BoolArgument(call, 3, false));
  style.bytes_max = call.interpreter.budget().options().output_bytes_max;
  KVD_CHECK_OK(call.interpreter.budget().Step(call.subject.node_count()));
  KVD_TRY(std::string text, WriteJson(call.subject, style));
  return call.interpreter.budget().String(std::move(text));
}

}  // namespace kvd::jinja
