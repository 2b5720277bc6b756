// Json: a JSON value, the output of a command with --json on one line. Only json_output.cc uses
// Boost.JSON.
//
// Handles, sessions and seeds are strings ("4294967299"), because a JavaScript number cannot
// represent all of their values. Times in the JSON output are whole nanoseconds.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvd::kvctl {

class Json {
 public:
  using Scalar = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

  static Json Object();
  static Json Array();
  Json(Json&&) noexcept;
  Json& operator=(Json&&) noexcept;
  ~Json();

  // Adds a member after the existing ones. REQUIRES: this value is an object.
  Json& Set(std::string_view key, const Scalar& value);
  Json& Set(std::string_view key, Json value);
  // Adds an element. REQUIRES: this value is an array.
  Json& Add(const Scalar& value);
  Json& Add(Json value);

  std::string Text() const;

 private:
  struct Value;
  explicit Json(std::unique_ptr<Value> value);
  std::unique_ptr<Value> value_;
};

}  // namespace kvd::kvctl
