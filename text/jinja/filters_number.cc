#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "text/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/format_number.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_arguments.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

constexpr double kIntegerEnd = 9223372036854775808.0;  // 2^63

std::unexpected<Error> FailTooLarge() {
  return Fail(Code::kUnsupported, "an integer exceeds 64 bits");
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The text of a number without white space around it and with ASCII digits; none if an underscore
// is not between two digits.
std::optional<std::string> PlainNumber(std::string_view text) {
  std::string plain;
  bool was_digit = false, was_underscore = false;
  std::string_view rest = Trim(text);
  while (!rest.empty()) {
    const std::string_view character = rest.substr(0, CharacterBytes(rest));
    rest.remove_prefix(character.size());
    if (character == "_") {
      if (!was_digit) return std::nullopt;
      was_digit = false;
      was_underscore = true;
      continue;
    }
    const std::optional<int> digit = DecimalValue(CharacterOf(character));
    plain += digit ? std::string(1, static_cast<char>('0' + *digit)) : std::string(character);
    was_digit = IsAlphanumeric(plain.back());
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

// Rounds to a multiple of 10^digits, exact ties to the even digit.
double RoundToTens(double number, std::int64_t digits) {
  if (digits > 308) return std::copysign(0.0, number);
  std::string text = FloatDigits(std::abs(number), 'f', 1100, false);
  const std::size_t point = text.find('.');
  const auto dropped = static_cast<std::size_t>(digits);
  if (dropped > point) return std::copysign(0.0, number);
  // The text is exact, so the dropped digits decide; a tie goes to the even digit.
  std::string kept = text.substr(0, point - dropped);
  const std::string rest = text.substr(point - dropped, dropped) + text.substr(point + 1);
  const bool is_above_tie =
      rest[0] > '5' || (rest[0] == '5' && rest.find_first_not_of('0', 1) != std::string::npos);
  const bool is_tie = rest[0] == '5' && !is_above_tie;
  if (kept.empty()) kept = "0";
  double whole = ParseFloat(kept).value_or(0);
  if (is_above_tie || (is_tie && (kept.back() - '0') % 2 == 1)) whole += 1;
  std::array<char, 64> exact;
  std::snprintf(exact.data(), exact.size(), "%.17ge%d", whole, static_cast<int>(digits));
  return std::copysign(ParseFloat(exact.data()).value_or(0), number);
}

double RoundFloat(double number, std::int64_t digits) {
  if (!std::isfinite(number)) return number;
  if (digits < 0) return RoundToTens(number, -std::max<std::int64_t>(digits, -400));
  if (digits > 323) return number;
  return ParseFloat(FloatDigits(number, 'f', digits, false)).value_or(number);
}

Result<Value> RoundInteger(std::int64_t number, std::int64_t digits) {
  if (digits >= 0) return Value::Int(number);
  if (digits < -18) return Value::Int(0);
  std::int64_t unit = 1;
  for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
  std::int64_t rest = number % unit;
  std::int64_t base = number - rest;
  if (rest < 0) {
    rest += unit;
    if (__builtin_sub_overflow(base, unit, &base)) return FailTooLarge();
  }
  const bool is_up = rest > unit / 2 || (rest == unit / 2 && (base / unit) % 2 != 0);
  if (is_up && __builtin_add_overflow(base, unit, &base)) return FailTooLarge();
  return Value::Int(base);
}

Result<Value> RoundDirected(Invocation& call, std::int64_t digits, bool is_up) {
  if (!call.subject.is_number()) {
    return Fail(Code::kInvalidArgument, "must be real number, not ", TypeName(call.subject));
  }
  KVD_TRY(const Value factor,
          Calculate(call.interpreter, BinaryOperator::kPower, Value::Int(10), Value::Int(digits)));
  KVD_TRY(const Value scaled,
          Calculate(call.interpreter, BinaryOperator::kMultiply, call.subject, factor));
  Value whole = scaled;
  if (scaled.is_float()) {
    if (std::isnan(scaled.real())) {
      return Fail(Code::kInvalidArgument, "cannot convert float NaN to integer");
    }
    const double rounded = is_up ? std::ceil(scaled.real()) : std::floor(scaled.real());
    // Python divides an integer of any size; as a double it has the same quotient by a power of 10
    // that is a float, or that is small.
    if (std::isfinite(rounded) && std::abs(rounded) > 9e18) {
      return Calculate(call.interpreter, BinaryOperator::kDivide, Value::Float(rounded), factor);
    }
    KVD_TRY(whole, IntegerFromFloat(rounded));
  }
  return Calculate(call.interpreter, BinaryOperator::kDivide, whole, factor);
}

}  // namespace

Result<Value> FilterAbs(Invocation& call) {
  const Value& value = call.subject;
  if (value.is_float()) return Value::Float(std::abs(value.real()));
  if (!value.is_integral()) {
    if (value.is_undefined()) return FailUndefined(value);
    return Fail(Code::kInvalidArgument, "bad operand type for abs(): '", TypeName(value), "'");
  }
  return value.integer() < 0 ? Negate(value) : Value::Int(value.integer());
}

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

Result<Value> FilterRound(Invocation& call) {
  const bool has_method = call.Has(1);
  const std::string_view method = !has_method           ? "common"
                                  : call[1].is_string() ? call[1].view()
                                                        : std::string_view();
  if (method != "common" && method != "ceil" && method != "floor") {
    return Fail(Code::kInvalidArgument, "method must be common, ceil or floor");
  }
  const Value& value = call.subject;
  if (value.is_undefined()) return FailUndefined(value);
  if (method == "common" && call.Has(0) && call[0].is_none()) {
    if (value.is_integral()) return Value::Int(value.integer());
    if (!value.is_float() || !std::isfinite(value.real())) {
      return Fail(Code::kInvalidArgument, "cannot round ", TypeName(value));
    }
    return IntegerFromFloat(RoundFloat(value.real(), 0));
  }
  KVD_TRY(const std::int64_t digits, IntegerArgument(call, 0, 0));
  if (method != "common") return RoundDirected(call, digits, method == "ceil");
  if (value.is_integral()) return RoundInteger(value.integer(), digits);
  if (value.is_float()) return Value::Float(RoundFloat(value.real(), digits));
  return Fail(Code::kInvalidArgument, "type ", TypeName(value), " doesn't define __round__ method");
}

Result<Value> FilterFileSizeFormat(Invocation& call) {
  KVD_TRY(const bool is_binary, BoolArgument(call, 0, false));
  const Value& value = call.subject;
  if (value.is_undefined()) return FailUndefined(value);
  std::optional<double> bytes;
  if (value.is_number()) bytes = value.number();
  if (value.is_string()) bytes = FloatFromText(value.view());
  if (!bytes) return Fail(Code::kInvalidArgument, "filesizeformat: not a number");
  const double base = is_binary ? 1024 : 1000;
  if (*bytes == 1) return Value::String("1 Byte");
  if (*bytes < base) {
    KVD_TRY(const Value whole, IntegerFromFloat(*bytes));
    return Value::String(Concat(whole.integer(), " Bytes"));
  }
  if (std::isnan(*bytes)) return Value::String(is_binary ? "nan YiB" : "nan YB");
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  std::size_t index = 0;
  for (; index < kPrefixes.size(); ++index) {
    unit *= base;
    if (*bytes < unit) break;
  }
  index = std::min(index, kPrefixes.size() - 1);
  const std::string prefix = is_binary ? std::string(1, index == 0 ? 'K' : kPrefixes[index]) + "iB"
                                       : std::string(1, kPrefixes[index]) + "B";
  return Value::String(FloatDigits(base * *bytes / unit, 'f', 1, false) + " " + prefix);
}

}  // namespace kvd::jinja
