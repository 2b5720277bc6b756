#include "text/json_builder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/utf8.h"
#include "text/json.h"

namespace kvd {
namespace {

std::string ValidUtf8(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t byte_count = WellFormedBytes(text);
    valid += byte_count == 0 ? kReplacementCharacter : text.substr(0, byte_count);
    text.remove_prefix(std::max<std::size_t>(byte_count, 1));
  }
  return valid;
}

}  // namespace

Value TextValue(std::string_view text) { return Value::String(ValidUtf8(text)); }

Value NumberValue(double number) {
  return std::isfinite(number) ? Value::Float(number) : Value::None();
}

Value CountValue(std::uint64_t count) {
  const bool fits = count <= std::numeric_limits<std::int64_t>::max();
  return fits ? Value::Int(static_cast<std::int64_t>(count))
              : Value::Float(static_cast<double>(count));
}

std::string JsonText(const Value& value) {
  JsonStyle style;
  style.item_separator = ",";
  style.key_separator = ":";
  style.bytes_max = std::size_t{1} << 30;
  auto text = WriteJson(value, style);
  return text ? std::move(*text) : std::string("null");
}

Json::Json(std::initializer_list<std::pair<std::string_view, Value>> members) {
  for (const auto& [name, value] : members) members_.Set(name, value);
}

Json Json::Array() {
  Json array;
  array.is_array_ = true;
  return array;
}

Json& Json::Set(std::string_view name, Part part) {
  members_.Set(name, std::move(part.value));
  return *this;
}

Json& Json::Add(Part part) {
  elements_.push_back(std::move(part.value));
  return *this;
}

Value Json::Take() {
  return is_array_ ? Value::List(std::move(elements_)) : Value::Of(std::move(members_));
}

}  // namespace kvd
