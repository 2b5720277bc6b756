// Digits are kept as text, so no operation rounds unless Rounded is called.
#include "text/schema/decimal.h"

#include <charconv>
#include <string_view>

#include "text/number_text.h"

namespace kvd::schema {
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

}  // namespace kvd::schema
