// Json: a JSON object or array that is built member by member.
//
//   Json().Set("id", id).Set("index", 3).Text()
//
// Values are those of text/value.h. A text that is not valid UTF-8 has U+FFFD in place of each byte
// that belongs to no well-formed character.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "text/value.h"

namespace kvd {

// A string value with valid UTF-8.
Value TextValue(std::string_view text);
// A number of JSON; null if it is not finite.
Value NumberValue(double number);
// A count; as a float if it exceeds 63 bits.
Value CountValue(std::uint64_t count);

// The JSON text, without white space. REQUIRES: values of JSON's kinds, with valid UTF-8.
std::string JsonText(const Value& value);

class Json {
 public:
  // A scalar, a text, a Value or another Json as a member or an element. Implicit, so that Set and
  // Add take each of them.
  struct Part {
    Value value;

    // NOLINTBEGIN(google-explicit-constructor)
    Part(Value given) : value(std::move(given)) {}
    Part(Json given) : value(std::move(given).Take()) {}
    Part(std::string_view text) : value(TextValue(text)) {}
    Part(const std::string& text) : value(TextValue(text)) {}
    Part(const char* text) : value(TextValue(text)) {}
    template <class Number>
      requires std::is_arithmetic_v<Number>
    Part(Number number) : value(ValueOf(number)) {}
    // NOLINTEND(google-explicit-constructor)
  };

  // An empty object.
  Json() = default;
  // An object of the members in their order.
  explicit Json(std::initializer_list<std::pair<std::string_view, Value>> members);
  static Json Object() { return {}; }
  static Json Array();

  // Adds a member after the existing ones, or replaces the one with the name. REQUIRES: an object.
  Json& Set(std::string_view name, Part part);
  // Adds an element. REQUIRES: an array.
  Json& Add(Part part);

  Value Take();
  std::string Text() { return JsonText(Take()); }

 private:
  template <class Number>
  static Value ValueOf(Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      return Value::Bool(number);
    } else if constexpr (std::is_floating_point_v<Number>) {
      return NumberValue(number);
    } else if constexpr (std::is_signed_v<Number>) {
      return Value::Int(number);
    } else {
      return CountValue(number);
    }
  }

  bool is_array_ = false;
  Dict members_;
  std::vector<Value> elements_;
};

}  // namespace kvd
