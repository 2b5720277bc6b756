#include "text/number_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace kvd {
namespace {

// Python writes an exponent if the decimal point is further away from the first digit than this.
constexpr std::int64_t kPointMin = -3;
constexpr std::int64_t kPointMax = 16;

std::string ExponentText(std::int64_t exponent) {
  const std::int64_t size = std::abs(exponent);
  return std::string(exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
}

}  // namespace

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer = {};  // the digits are followed by a zero, which ends atoi()
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                     std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  std::string result;
  if (text.front() == '-') {
    result = "-";
    text.remove_prefix(1);
  }
  const std::size_t exponent_at = text.find('e');
  std::string digits(1, text[0]);
  if (exponent_at > 2) digits += text.substr(2, exponent_at - 2);
  const std::int64_t exponent = ParseInteger(text.substr(exponent_at + 1)).value_or(0);
  const std::int64_t point = exponent + 1;  // digits before the decimal point
  if (point < kPointMin || point > kPointMax) {
    result += digits[0];
    if (digits.size() > 1) result.append(".").append(digits, 1);
    return result + ExponentText(exponent);
  }
  if (point <= 0)
    return result + "0." + std::string(static_cast<std::size_t>(-point), '0') + digits;
  const auto whole = static_cast<std::size_t>(point);
  if (digits.size() <= whole)
    return result + digits + std::string(whole - digits.size(), '0') + ".0";
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::optional<std::int64_t> ParseInteger(std::string_view text, int base) {
  const bool is_positive = text.starts_with('+');
  if (is_positive) text.remove_prefix(1);
  if (is_positive && text.starts_with('-')) return std::nullopt;
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> ParseFloat(std::string_view text) {
  const bool is_positive = text.starts_with('+');
  if (is_positive) text.remove_prefix(1);
  if (is_positive && text.starts_with('-')) return std::nullopt;
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ptr != text.data() + text.size() || text.empty()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    // from_chars does not say whether the number is too large or too small.
    return std::strtod(std::string(text).c_str(), nullptr);
  }
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace kvd
