#include "text/schema/decimal.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "text/number_text.h"
#include "text/schema/rule_book.h"

namespace kvd::schema {

// ---- decimal
// Digits are kept as text, so no operation rounds unless Rounded is called.

namespace {

void Trim(Decimal& number) {
  const std::size_t first = number.whole.find_first_not_of('0');
  number.whole = first == std::string::npos ? "0" : number.whole.substr(first);
  number.fraction.erase(number.fraction.find_last_not_of('0') + 1);
}

}  // namespace

Decimal DecimalOf(const Value& number) {
  std::string text =
      number.is_float() ? FloatText(number.real()) : std::to_string(number.integer());
  Decimal decimal;
  if (text.starts_with('-')) {
    decimal.is_negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const std::size_t e = text.find('e'); e != std::string::npos) {
    std::string_view digits = std::string_view(text).substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    text.erase(e);
  }
  const std::size_t point = text.find('.');
  decimal.whole = text.substr(0, point);
  if (point != std::string::npos) decimal.fraction = text.substr(point + 1);
  for (; exponent > 0; --exponent) {
    decimal.whole += decimal.fraction.empty() ? '0' : decimal.fraction[0];
    if (!decimal.fraction.empty()) decimal.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    decimal.fraction.insert(0, 1, decimal.whole.empty() ? '0' : decimal.whole.back());
    if (!decimal.whole.empty()) decimal.whole.pop_back();
  }
  Trim(decimal);
  return decimal;
}

Decimal Rounded(Decimal number, std::size_t digit_count, bool up) {
  if (number.fraction.size() <= digit_count) return number;
  number.fraction.resize(digit_count);
  if (up) {
    std::string digits = "0" + number.whole + number.fraction;
    std::size_t i = digits.size();
    while (digits[--i] == '9') digits[i] = '0';
    ++digits[i];
    number.whole = digits.substr(0, digits.size() - digit_count);
    number.fraction = digits.substr(digits.size() - digit_count);
  }
  Trim(number);
  return number;
}

int CompareWhole(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  const int order = a.compare(b);
  return order < 0 ? -1 : static_cast<int>(order > 0);
}

int CompareMagnitude(const Decimal& a, const Decimal& b) {
  if (const int order = CompareWhole(a.whole, b.whole); order != 0) return order;
  // Trailing zeros are absent, so the order of texts is the order of fractions.
  const int order = a.fraction.compare(b.fraction);
  return order < 0 ? -1 : static_cast<int>(order > 0);
}

// ---- digit rules
// Texts of digits of equal length are ordered like numbers: a text is in a range if its first digit
// lies between the bounds' first digits, or equals one and the rest is in range.

namespace {

GrammarExpression DigitBetween(char first, char last) {
  if (first > last) return Nothing();
  return ClassOf(
      CodePointSet::Of({{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)}}));
}

bool IsOnly(std::string_view digits, char digit) {
  return digits.find_first_not_of(digit) == std::string_view::npos;
}

// Texts of as many digits as both bounds have.
GrammarExpression EqualLengthRange(std::string_view low, std::string_view high) {
  if (low.empty()) return {};
  const std::size_t rest = low.size() - 1;
  if (low[0] == high[0])
    return Sequence(
        {Literal(std::string(1, low[0])), EqualLengthRange(low.substr(1), high.substr(1))});
  const bool whole_low = IsOnly(low.substr(1), '0');
  const bool whole_high = IsOnly(high.substr(1), '9');
  std::vector<GrammarExpression> alternatives;
  if (!whole_low)
    alternatives.push_back(Sequence({Literal(std::string(1, low[0])),
                                     EqualLengthRange(low.substr(1), std::string(rest, '9'))}));
  const char first = static_cast<char>(low[0] + (whole_low ? 0 : 1));
  const char last = static_cast<char>(high[0] - (whole_high ? 0 : 1));
  alternatives.push_back(Sequence({DigitBetween(first, last), Digits(rest, rest)}));
  if (!whole_high)
    alternatives.push_back(Sequence({Literal(std::string(1, high[0])),
                                     EqualLengthRange(std::string(rest, '0'), high.substr(1))}));
  return Choice(std::move(alternatives));
}

// The three below: 0 to `count` digits that, read as a fraction, are at least `low`, at most
// `high`, or both. A bound has at most `count` digits and no zeros at its end.
GrammarExpression FractionFrom(std::string_view low, std::size_t count) {
  if (low.empty()) return Digits(0, count);
  return Choice(
      {Sequence({DigitBetween(static_cast<char>(low[0] + 1), '9'), Digits(0, count - 1)}),
       Sequence({Literal(std::string(1, low[0])), FractionFrom(low.substr(1), count - 1)})});
}

GrammarExpression FractionTo(std::string_view high, std::size_t count) {
  if (high.empty()) return Repeat(Literal("0"), 0, count);
  return Optional(Choice(
      {Sequence({DigitBetween('0', static_cast<char>(high[0] - 1)), Digits(0, count - 1)}),
       Sequence({Literal(std::string(1, high[0])), FractionTo(high.substr(1), count - 1)})}));
}

GrammarExpression FractionBetween(std::string_view low, std::string_view high, std::size_t count) {
  if (low.empty()) return FractionTo(high, count);
  const std::string_view low_rest = low.substr(1);
  const std::string_view high_rest = high.substr(1);
  if (low[0] == high[0])
    return Sequence(
        {Literal(std::string(1, low[0])), FractionBetween(low_rest, high_rest, count - 1)});
  return Choice(
      {Sequence({Literal(std::string(1, low[0])), FractionFrom(low_rest, count - 1)}),
       Sequence({DigitBetween(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                 Digits(0, count - 1)}),
       Sequence({Literal(std::string(1, high[0])), FractionTo(high_rest, count - 1)})});
}

// A point and digits. The text without a point is the fraction 0.
GrammarExpression PointAnd(GrammarExpression digits) {
  return Sequence({Literal("."), std::move(digits)});
}
GrammarExpression AnyFraction(std::size_t count) { return Optional(PointAnd(Digits(1, count))); }

GrammarExpression PointFrom(std::string_view low, std::size_t count) {
  if (low.empty()) return AnyFraction(count);
  return PointAnd(FractionFrom(low, count));
}

// FractionTo without its empty text, which must not follow a point.
GrammarExpression PointTo(std::string_view high, std::size_t count) {
  if (high.empty()) return Optional(PointAnd(Repeat(Literal("0"), 1, count)));
  GrammarExpression digits = FractionTo(high, count);
  return Optional(PointAnd(std::move(digits.parts[0])));
}

GrammarExpression PointBetween(std::string_view low, std::string_view high, std::size_t count) {
  if (low.empty()) return PointTo(high, count);
  return PointAnd(FractionBetween(low, high, count));
}

std::string Increased(std::string digits) {
  Decimal number;
  number.whole = std::move(digits);
  number.fraction = "1";
  return Rounded(std::move(number), 0, true).whole;
}

// REQUIRES: digits is not "0".
std::string Decreased(std::string digits) {
  std::size_t i = digits.size();
  while (digits[--i] == '0') digits[i] = '9';
  --digits[i];
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? "0" : digits.substr(first);
}

}  // namespace

GrammarExpression Digits(std::size_t min, std::size_t max) {
  return Repeat(DigitBetween('0', '9'), min, max);
}

GrammarExpression WholeRange(const std::string& low, const std::string& high) {
  std::vector<GrammarExpression> alternatives;
  std::size_t length = low.size();
  if (length < high.size() && low != "1" + std::string(length - 1, '0')) {
    alternatives.push_back(EqualLengthRange(low, std::string(length, '9')));
    ++length;
  }
  std::size_t full_end = high.size();  // lengths below it are in range completely
  const bool is_length_full = length > low.size() || low == "1" + std::string(length - 1, '0');
  if (IsOnly(high, '9') && is_length_full) ++full_end;
  if (length < full_end) {
    alternatives.push_back(Sequence({DigitBetween('1', '9'), Digits(length - 1, full_end - 2)}));
    length = full_end;
  }
  if (length == high.size()) {
    const std::string least = "1" + std::string(length - 1, '0');
    alternatives.push_back(EqualLengthRange(length == low.size() ? low : least, high));
  }
  return Choice(std::move(alternatives));
}

GrammarExpression DecimalRange(const Decimal& low, const std::optional<Decimal>& high,
                               std::size_t digit_count) {
  const std::string greatest(kWholeDigitsMax, '9');
  const bool is_open = !high || high->whole.size() > kWholeDigitsMax;
  if (low.whole.size() > kWholeDigitsMax) return Nothing();
  const std::string& high_whole = is_open ? greatest : high->whole;
  if (!is_open && low.whole == high_whole)
    return Sequence({Literal(low.whole), PointBetween(low.fraction, high->fraction, digit_count)});
  std::vector<GrammarExpression> alternatives;
  std::string first = low.whole;
  if (!low.fraction.empty()) {
    alternatives.push_back(Sequence({Literal(first), PointFrom(low.fraction, digit_count)}));
    first = Increased(first);
  }
  const std::string last = is_open ? greatest : Decreased(high_whole);
  if (CompareWhole(first, last) <= 0)
    alternatives.push_back(Sequence({WholeRange(first, last), AnyFraction(digit_count)}));
  if (!is_open)
    alternatives.push_back(Sequence({Literal(high_whole), PointTo(high->fraction, digit_count)}));
  return Choice(std::move(alternatives));
}

}  // namespace kvd::schema
