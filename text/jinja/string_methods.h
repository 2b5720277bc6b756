// The methods of strings. The subject of each call is a string.
#pragma once

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/value.h"

namespace kvd::jinja {

// string_methods.cc
Result<Value> StringCapitalize(Invocation& call);
Result<Value> StringFormat(Invocation& call);
Result<Value> StringLower(Invocation& call);
Result<Value> StringStrip(Invocation& call);
Result<Value> StringStripLeft(Invocation& call);
Result<Value> StringStripRight(Invocation& call);
Result<Value> StringUpper(Invocation& call);

// Searching.
Result<Value> StringEndsWith(Invocation& call);
Result<Value> StringFind(Invocation& call);
Result<Value> StringFindLast(Invocation& call);
Result<Value> StringReplace(Invocation& call);
Result<Value> StringStartsWith(Invocation& call);

// Splitting and joining.
Result<Value> StringJoin(Invocation& call);
Result<Value> StringSplit(Invocation& call);
Result<Value> StringSplitLast(Invocation& call);

// The parts of a text between its line ends, which str.splitlines() recognises.
std::vector<std::string_view> SplitLines(std::string_view text);
// The subject with all, or the first `count_max`, occurrences replaced; negative: all. Errors:
// kTooLarge.
Result<std::string> ReplaceAll(Interpreter& interpreter, std::string_view text,
                               std::string_view old_part, std::string_view new_part,
                               std::int64_t count_max);
// The text without characters of `chars` at the chosen ends; without `chars`, without white space.
std::string_view StripText(std::string_view text, const std::string* chars, bool left, bool right);

}  // namespace kvd::jinja
