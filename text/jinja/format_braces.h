// Python's "{}".format(...), with fields that are empty, a number or a name.
#pragma once

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

// Errors: kInvalidArgument: the format is wrong or an argument is missing; kUnsupported: a field
// has attributes, a conversion or a format of its own.
Result<Value> FormatBraces(Interpreter& interpreter, const Value& format,
                           const Arguments& arguments);

}  // namespace kvd::jinja
