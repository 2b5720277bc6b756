// Python's operators on values.
#pragma once

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/syntax.h"
#include "text/value.h"

namespace kvd::jinja {

// The error of using an undefined value. REQUIRES: is_undefined().
std::unexpected<Error> FailUndefined(const Value& value);
// `value` as a Python int: an int or a bool. `what` names it in the error.
Result<std::int64_t> IntegerOf(const Value& value, std::string_view what);

// Python's bool().
Result<bool> IsTrue(const Value& value);
Result<bool> AreEqual(Interpreter& interpreter, const Value& a, const Value& b);
// a < b, and the other orders. Errors: kInvalidArgument: the kinds have no order.
Result<bool> IsLess(Interpreter& interpreter, const Value& a, const Value& b);
Result<bool> Compare(Interpreter& interpreter, ComparisonOperator op, const Value& a,
                     const Value& b);
// `item in container`.
Result<bool> Contains(Interpreter& interpreter, const Value& container, const Value& item);

// Errors: kInvalidArgument: the kinds do not fit, or a division by zero; kUnsupported: an integer
// result of more than 64 bits, or a complex number.
Result<Value> Calculate(Interpreter& interpreter, BinaryOperator op, const Value& a,
                        const Value& b);
Result<Value> Negate(const Value& value);

// The indices of a slice of `count` items, as Python's slice.indices(). Missing and None stand for
// absent parts.
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
Result<SliceRange> FindSlice(std::int64_t count, const Value& start, const Value& stop,
                             const Value& step);

}  // namespace kvd::jinja
