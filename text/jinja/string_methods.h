// The methods of strings. The subject of each call is a string.
#pragma once

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/value.h"

namespace kvd::jinja {

// string_methods.cc
Result<Value> StringCapitalize(Invocation& call);
Result<Value> StringCaseFold(Invocation& call);
Result<Value> StringCenter(Invocation& call);
Result<Value> StringExpandTabs(Invocation& call);
Result<Value> StringFormat(Invocation& call);
Result<Value> StringIsAlpha(Invocation& call);
Result<Value> StringIsAlphanumeric(Invocation& call);
Result<Value> StringIsAscii(Invocation& call);
Result<Value> StringIsDecimal(Invocation& call);
Result<Value> StringIsDigit(Invocation& call);
Result<Value> StringIsIdentifier(Invocation& call);
Result<Value> StringIsLower(Invocation& call);
Result<Value> StringIsNumeric(Invocation& call);
Result<Value> StringIsPrintable(Invocation& call);
Result<Value> StringIsSpace(Invocation& call);
Result<Value> StringIsTitle(Invocation& call);
Result<Value> StringIsUpper(Invocation& call);
Result<Value> StringLeftJustify(Invocation& call);
Result<Value> StringLower(Invocation& call);
Result<Value> StringRemovePrefix(Invocation& call);
Result<Value> StringRemoveSuffix(Invocation& call);
Result<Value> StringRightJustify(Invocation& call);
Result<Value> StringStrip(Invocation& call);
Result<Value> StringStripLeft(Invocation& call);
Result<Value> StringStripRight(Invocation& call);
Result<Value> StringSwapCase(Invocation& call);
Result<Value> StringTitle(Invocation& call);
Result<Value> StringUpper(Invocation& call);
Result<Value> StringZeroFill(Invocation& call);

// string_search_methods.cc
Result<Value> StringCount(Invocation& call);
Result<Value> StringEndsWith(Invocation& call);
Result<Value> StringFind(Invocation& call);
Result<Value> StringFindLast(Invocation& call);
Result<Value> StringIndex(Invocation& call);
Result<Value> StringIndexLast(Invocation& call);
Result<Value> StringReplace(Invocation& call);
Result<Value> StringStartsWith(Invocation& call);

// string_split_methods.cc
Result<Value> StringJoin(Invocation& call);
Result<Value> StringPartition(Invocation& call);
Result<Value> StringPartitionLast(Invocation& call);
Result<Value> StringSplit(Invocation& call);
Result<Value> StringSplitLast(Invocation& call);
Result<Value> StringSplitLines(Invocation& call);

// The parts of a text between its line ends, which str.splitlines() recognises. `keeps_ends`: with
// their line ends.
std::vector<std::string_view> SplitLines(std::string_view text, bool keeps_ends);
// The subject with all, or the first `count_max`, occurrences replaced; negative: all. Errors:
// kTooLarge.
Result<std::string> ReplaceAll(Interpreter& interpreter, std::string_view text,
                               std::string_view old_part, std::string_view new_part,
                               std::int64_t count_max);
// The text without characters of `chars` at the chosen ends; without `chars`, without white space.
std::string_view StripText(std::string_view text, const std::string* chars, bool left, bool right);
// The text, extended to `width` characters by `fill`. Errors: kTooLarge.
enum class Align : std::uint8_t { kLeft, kCenter, kRight };
Result<std::string> PadText(Interpreter& interpreter, const Text& text, std::int64_t width,
                            std::string_view fill, Align align);

}  // namespace kvd::jinja
