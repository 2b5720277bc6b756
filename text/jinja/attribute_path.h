// The attribute that a filter takes of each item: "name", "a.b.0", or an index.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

class AttributePath {
 public:
  // `attribute` is missing or None for the item itself.
  explicit AttributePath(const Value& attribute);
  // The paths of "a,b.c".
  static std::vector<AttributePath> Several(const Value& attribute);

  // The attribute of `item`; `fallback`, unless it is missing, replaces what is undefined.
  Result<Value> Of(Interpreter& interpreter, Value item, const Value& fallback = {}) const;

 private:
  AttributePath() = default;
  void Add(std::string_view dotted);

  std::vector<Value> parts_;
};

// Strings in lower case, other values as they are.
Value IgnoreCase(const Value& value);

}  // namespace kvd::jinja
