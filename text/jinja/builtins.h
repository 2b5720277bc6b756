// The filters, tests, methods and global functions of the language, each one row of a table.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/value.h"

namespace kvd::jinja {

class Interpreter;

// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> named;  // each name is a string
};

// One call of a builtin: the value that it is applied to, and its arguments, bound to the
// parameters of its row. An argument that is absent is missing (Value::is_missing()).
struct Invocation {
  static constexpr std::size_t kParametersMax = 6;

  Interpreter& interpreter;
  std::string_view name;
  Value subject;
  Arguments arguments;  // as they were given
  std::array<Value, kParametersMax> bound;

  const Value& operator[](std::size_t index) const { return bound[index]; }
  bool Has(std::size_t index) const { return !bound[index].is_missing(); }
};

using BuiltinFunction = Result<Value> (*)(Invocation&);

// `parameters` are names separated by spaces; "?" after a name: the argument may be absent; "/"
// before the names: they cannot be used as keywords. "*": the function takes any arguments.
struct BuiltinRow {
  std::string_view name;
  std::string_view parameters;
  BuiltinFunction function = nullptr;  // null: known to Jinja2 or Python, and not supported
};

// The parameters of a method that changes its object, which a template may not do.
inline constexpr std::string_view kUnsafeParameters = "!";
inline bool IsUnsafe(const BuiltinRow& row) { return row.parameters == kUnsafeParameters; }

// Each returns null if there is none with the name. A method may be one that is not supported.
const BuiltinRow* FindFilter(std::string_view name);
const BuiltinRow* FindTest(std::string_view name);
const BuiltinRow* FindGlobal(std::string_view name);
const BuiltinRow* FindMethod(const Value& receiver, std::string_view name);

// Binds arguments.arguments to the parameters of `row`. Errors: kInvalidArgument: too many or too
// few arguments, or one that the function does not have.
Status BindArguments(const BuiltinRow& row, Invocation* invocation);

}  // namespace kvd::jinja
