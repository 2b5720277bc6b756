// Python's "{}".format(...).
#pragma once

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

// Errors: kInvalidArgument: the format is wrong or an argument is missing.
Result<Value> FormatBraces(Interpreter& interpreter, const Value& format,
                           const Arguments& arguments);

}  // namespace kvd::jinja
