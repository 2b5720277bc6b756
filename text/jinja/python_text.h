// Values as Python writes them: str(), repr() and "{}".format(...).
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

// Values as Python's str() and repr() write them.

// The name of the value's class: "str", "NoneType".
std::string_view TypeName(const Value& value);
// The value's type as messages about undefined values name it: "dict object", "None".
std::string DescribeType(const Value& value);

// Each appends to `text` and counts its work. Errors: kTooLarge.
Status AppendStr(Interpreter& interpreter, const Value& value, std::string* text);
Status AppendRepr(Interpreter& interpreter, const Value& value, std::string* text);
Status AppendRepr(Interpreter& interpreter, const Dict& dict, std::string* text);

Result<std::string> Str(Interpreter& interpreter, const Value& value);
Result<std::string> Repr(Interpreter& interpreter, const Value& value);
// str(value) as a value; markup stays markup.
Result<Value> StrValue(Interpreter& interpreter, const Value& value);

// repr() of a string.
std::string QuoteString(std::string_view text);

// Replaces & < > ' " by HTML's entities.
std::string EscapeHtml(std::string_view text);

// Python's "{}".format(...), with fields that are empty, a number or a name.
// Errors: kInvalidArgument: the format is wrong or an argument is missing; kUnsupported: a field
// has attributes, a conversion or a format of its own.
Result<Value> FormatBraces(Interpreter& interpreter, const Value& format,
                           const Arguments& arguments);

}  // namespace kvd::jinja
