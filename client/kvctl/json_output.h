// JSON for --json: one value per command, on one line. The only place that meets Boost.JSON.
//
// Handles, sessions and seeds are strings ("4294967299"): they do not fit a JavaScript number.
// Times are whole nanoseconds.
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

  // REQUIRES: an object. Members keep their order.
  Json& Set(std::string_view key, const Scalar& value);
  Json& Set(std::string_view key, Json value);
  // REQUIRES: an array.
  Json& Add(const Scalar& value);
  Json& Add(Json value);

  std::string Text() const;

 private:
  struct Value;
  explicit Json(std::unique_ptr<Value> value);
  std::unique_ptr<Value> value_;
};

}  // namespace kvd::kvctl
