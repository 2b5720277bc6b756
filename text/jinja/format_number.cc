#include "text/jinja/format_number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "text/characters.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

constexpr std::string_view kAligns = "<>=^";

bool IsAlign(char c) { return kAligns.find(c) != std::string_view::npos; }

// Reads digits at the start of `text`; none if there are none.
Result<std::optional<std::int64_t>> TakeNumber(std::string_view* text) {
  std::size_t end = 0;
  while (end < text->size() && (*text)[end] >= '0' && (*text)[end] <= '9') ++end;
  if (end == 0) return std::optional<std::int64_t>();
  const std::optional<std::int64_t> number = ParseInteger(text->substr(0, end));
  if (!number) return Fail(Code::kUnsupported, "too many decimal digits in format string");
  text->remove_prefix(end);
  return number;
}

bool Take(std::string_view* text, char wanted) {
  if (!text->starts_with(wanted)) return false;
  text->remove_prefix(1);
  return true;
}

// Puts `separator` between groups of digits.
std::string Grouped(std::string_view digits, char separator, std::size_t group) {
  if (separator == 0) return std::string(digits);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

std::string SignOf(bool is_negative, char sign) {
  if (is_negative) return "-";
  return sign == '+' || sign == ' ' ? std::string(1, sign) : "";
}

// A formatted number: sign, prefix, whole digits, and the rest (fraction and exponent).
struct NumberParts {
  std::string sign;  // with the prefix 0x
  std::string digits;
  std::string rest;
};

Result<std::string> PadNumber(Interpreter& interpreter, NumberParts parts, const FormatSpec& spec,
                              std::size_t group) {
  std::string digits = Grouped(parts.digits, spec.grouping, group);
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(spec.width, 0));
  KVD_CHECK_OK(interpreter.budget().CheckRoom(width, spec.fill.size()));
  if (spec.align == '=' && spec.fill == "0" && spec.grouping != 0) {
    // Zeros are grouped with the digits, and the width may be exceeded by a digit.
    const std::size_t others = parts.sign.size() + parts.rest.size();
    while (others + digits.size() < width) {
      parts.digits.insert(parts.digits.begin(), '0');
      digits = Grouped(parts.digits, spec.grouping, group);
    }
  }
  const Text body = Value::String(digits + parts.rest).text();
  if (spec.align == '=') {
    KVD_TRY(const std::string padded,
            PadText(interpreter, body, spec.width - static_cast<std::int64_t>(parts.sign.size()),
                    spec.fill, Align::kRight));
    return parts.sign + padded;
  }
  const Text whole = Value::String(parts.sign + body.bytes).text();
  if (spec.align == '^') {
    const std::int64_t missing = spec.width - static_cast<std::int64_t>(whole.code_points);
    std::string text;
    for (std::int64_t i = 0; i < missing / 2; ++i) text += spec.fill;
    text += whole.bytes;
    for (std::int64_t i = missing / 2; i < missing; ++i) text += spec.fill;
    return text;
  }
  return PadText(interpreter, whole, spec.width, spec.fill,
                 spec.align == '<' ? Align::kLeft : Align::kRight);
}

Result<std::string> FormatString(Interpreter& interpreter, const Value& value,
                                 const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') {
    return Fail(Code::kInvalidArgument, "unknown format code '", spec.type,
                "' for object of type 'str'");
  }
  if (spec.sign != '-' || spec.is_alternate || spec.align == '=' || spec.grouping != 0) {
    return Fail(Code::kInvalidArgument, "the format does not fit a string");
  }
  std::string_view text = value.view();
  if (spec.precision)
    text = text.substr(0, OffsetOf(text, static_cast<std::size_t>(*spec.precision)));
  FormatSpec padding = spec;
  if (padding.align == 0) padding.align = '<';
  return PadNumber(interpreter, {.sign = "", .digits = "", .rest = std::string(text)}, padding, 3);
}

Result<std::string> FormatInteger(Interpreter& interpreter, std::int64_t number,
                                  const FormatSpec& spec) {
  if (spec.precision) {
    return Fail(Code::kInvalidArgument, "precision not allowed in integer format specifier");
  }
  NumberParts parts{.sign = SignOf(number < 0, spec.sign), .digits = "", .rest = ""};
  unsigned base = 10;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n': break;
    case 'b': base = 2; break;
    case 'o': base = 8; break;
    case 'x':
    case 'X': base = 16; break;
    case 'c':
      if (number < 0 || number > 0x10ffff) {
        return Fail(Code::kInvalidArgument, "%c arg not in range(0x110000)");
      }
      parts.sign.clear();
      AppendUtf8(static_cast<std::uint32_t>(number), parts.rest);
      return PadNumber(interpreter, std::move(parts), spec, 3);
    default:
      return Fail(Code::kInvalidArgument, "unknown format code '", spec.type,
                  "' for object of type 'int'");
  }
  if (spec.grouping == ',' && base != 10) {
    return Fail(Code::kInvalidArgument, "cannot specify ',' with '", spec.type, "'");
  }
  parts.digits = IntegerDigits(number, base);
  if (spec.type == 'X') parts.digits = Upper(parts.digits);
  if (spec.is_alternate && base != 10) parts.sign.append("0").append(1, spec.type);
  return PadNumber(interpreter, std::move(parts), spec, base == 10 ? 3 : 4);
}

Result<std::string> FormatFloat(Interpreter& interpreter, double number, const FormatSpec& spec) {
  const bool is_percent = spec.type == '%';
  const bool is_plain = spec.type == 0;
  if (!is_plain && !is_percent &&
      std::string_view("eEfFgGn").find(spec.type) == std::string_view::npos) {
    return Fail(Code::kInvalidArgument, "unknown format code '", spec.type,
                "' for object of type 'float'");
  }
  std::string text;
  const double size = std::abs(is_percent ? number * 100 : number);
  if (is_plain && !spec.precision) {
    text = FloatText(size);
  } else if (is_plain) {
    // Like g, with a digit after the point, and an exponent one digit earlier.
    const std::int64_t precision = std::max<std::int64_t>(*spec.precision, 1);
    text = FloatDigits(size, 'g', precision, spec.is_alternate);
    const std::string exponent_form = FloatDigits(size, 'e', precision - 1, spec.is_alternate);
    const std::size_t at = exponent_form.find("e+");
    const bool is_large = at != std::string::npos &&
                          ParseInteger(exponent_form.substr(at + 2)).value_or(0) >= precision - 1;
    if (is_large && text.find('e') == std::string::npos && std::isfinite(size)) {
      std::string mantissa = exponent_form.substr(0, at);
      if (mantissa.find('.') != std::string::npos && !spec.is_alternate) {
        mantissa.erase(mantissa.find_last_not_of('0') + 1);
        if (mantissa.ends_with('.')) mantissa.pop_back();
      }
      text = mantissa + exponent_form.substr(at);
    } else if (text.find_first_of(".en") == std::string::npos) {
      text += ".0";
    }
  } else {
    const char type = is_percent ? 'f' : spec.type == 'n' ? 'g' : spec.type;
    text = FloatDigits(size, type, spec.precision.value_or(6), spec.is_alternate);
  }
  if (is_percent) text += '%';
  const bool is_negative = std::signbit(number) && !std::isnan(number);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return PadNumber(interpreter,
                   {.sign = SignOf(is_negative, spec.sign),
                    .digits = text.substr(0, digits),
                    .rest = text.substr(digits)},
                   spec, 3);
}

}  // namespace

Result<FormatSpec> ParseFormatSpec(std::string_view text) {
  FormatSpec spec;
  const std::size_t fill_bytes = text.empty() ? 0 : CharacterBytes(text);
  bool has_fill = false;
  if (text.size() > fill_bytes && fill_bytes > 0 && IsAlign(text[fill_bytes])) {
    spec.fill = text.substr(0, fill_bytes);
    has_fill = true;
    spec.align = text[fill_bytes];
    text.remove_prefix(fill_bytes + 1);
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const bool has_align = spec.align != 0;
  if (text.starts_with('+') || text.starts_with('-') || text.starts_with(' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  spec.is_alternate = Take(&text, '#');
  if (!has_fill && Take(&text, '0')) {
    spec.fill.assign(1, '0');
    spec.is_zero_padded = !has_align;
  }
  KVD_TRY(const std::optional<std::int64_t> width, TakeNumber(&text));
  spec.width = width.value_or(0);
  if (text.starts_with(',') || text.starts_with('_')) {
    spec.grouping = text[0];
    text.remove_prefix(1);
  }
  if (Take(&text, '.')) {
    KVD_TRY(spec.precision, TakeNumber(&text));
    if (!spec.precision) return Fail(Code::kInvalidArgument, "format specifier missing precision");
  }
  if (text.size() > 1) return Fail(Code::kInvalidArgument, "invalid format specifier");
  if (!text.empty()) spec.type = text[0];
  return spec;
}

std::string IntegerDigits(std::int64_t number, unsigned base) {
  std::uint64_t size = static_cast<std::uint64_t>(number);
  if (number < 0) size = std::uint64_t{0} - size;
  std::string digits;
  do {
    digits += "0123456789abcdef"[size % base];
    size /= base;
  } while (size > 0);
  std::ranges::reverse(digits);
  return digits;
}

std::string FloatDigits(double number, char type, std::int64_t precision, bool is_alternate) {
  const std::string format = std::string("%") + (is_alternate ? "#" : "") + ".*" + type;
  const int digits = static_cast<int>(std::min(precision, kPrecisionMax));
  const int bytes = std::snprintf(nullptr, 0, format.c_str(), digits, number);
  std::string text(static_cast<std::size_t>(bytes) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), digits, number);
  text.pop_back();
  return text;
}

Result<std::string> FormatValue(Interpreter& interpreter, const Value& value,
                                const FormatSpec& spec) {
  if (spec.precision.value_or(0) > kPrecisionMax) {
    return Fail(Code::kUnsupported, "a precision of more than ", kPrecisionMax);
  }
  if (value.is_string()) return FormatString(interpreter, value, spec);
  FormatSpec number_spec = spec;
  if (number_spec.align == 0) number_spec.align = spec.is_zero_padded ? '=' : '>';
  if (value.is_float()) return FormatFloat(interpreter, value.real(), number_spec);
  if (!value.is_integral()) {
    return Fail(Code::kInvalidArgument, "unsupported format string passed to ", TypeName(value),
                ".__format__");
  }
  const bool is_float_type =
      spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (is_float_type) {
    return FormatFloat(interpreter, static_cast<double>(value.integer()), number_spec);
  }
  return FormatInteger(interpreter, value.integer(), number_spec);
}

}  // namespace kvd::jinja
