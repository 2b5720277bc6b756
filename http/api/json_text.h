// Writing JSON for replies: compact, and valid UTF-8 whatever a model has written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "text/value.h"

namespace kvd::http {

// The text with U+FFFD in place of each byte that belongs to no well-formed character.
std::string ValidUtf8(std::string_view text);

// A string value with valid UTF-8.
Value TextValue(std::string_view text);
// A number of JSON; null if it is not finite.
Value NumberValue(double number);
// A number that was a float in a request: 0.8, not 0.800000011920929.
Value FloatValue(float number);
inline Value CountValue(std::uint64_t count) {
  return Value::Int(static_cast<std::int64_t>(count));
}

// Builds an object: Object().Set("id", TextValue(id)).Set("index", CountValue(0)).Take().
class Object {
 public:
  Object& Set(std::string_view name, Value value) {
    dict_.Set(name, std::move(value));
    return *this;
  }
  // Sets text members without TextValue.
  Object& Set(std::string_view name, std::string_view text) { return Set(name, TextValue(text)); }
  Object& Set(std::string_view name, const char* text) { return Set(name, TextValue(text)); }
  Object& Set(std::string_view name, const std::string& text) { return Set(name, TextValue(text)); }
  Value Take() { return Value::Of(std::move(dict_)); }

 private:
  Dict dict_;
};

// The JSON text, without white space. REQUIRES: values of JSON's kinds, with valid UTF-8.
std::string JsonText(const Value& value);

}  // namespace kvd::http
