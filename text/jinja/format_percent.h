// Python's "format % values".
#pragma once

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

// `values` is a tuple of the values, a dict for formats with names, or one value. Errors:
// kInvalidArgument: the values do not fit the format.
Result<Value> FormatPercent(Interpreter& interpreter, const Value& format, const Value& values);

}  // namespace kvd::jinja
