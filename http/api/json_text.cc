#include "http/api/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "base/utf8.h"
#include "shm/sampling_params.h"
#include "text/json.h"

namespace kvd::http {

std::string ValidUtf8(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t byte_count = WellFormedBytes(text);
    valid += byte_count == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, byte_count);
    text.remove_prefix(std::max<std::size_t>(byte_count, 1));
  }
  return valid;
}

Value TextValue(std::string_view text) { return Value::String(ValidUtf8(text)); }

Value NumberValue(double number) {
  return std::isfinite(number) ? Value::Float(number) : Value::None();
}

Value FloatValue(float number) {
  if (!std::isfinite(number)) return Value::None();
  const std::string text = NumberText(number);
  double exact = number;
  std::from_chars(text.data(), text.data() + text.size(), exact);
  return Value::Float(exact);
}

std::string JsonText(const Value& value) {
  JsonStyle style;
  style.item_separator = ",";
  style.key_separator = ":";
  style.bytes_max = std::size_t{1} << 30;
  auto text = WriteJson(value, style);
  return text ? std::move(*text) : std::string("null");
}

}  // namespace kvd::http
