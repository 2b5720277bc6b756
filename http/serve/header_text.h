// Functions for the text of headers, which HTTP compares without regard to case (ASCII only).
#pragma once

#include <string_view>

namespace kvd::http {

bool EqualsIgnoringCase(std::string_view a, std::string_view b);
// Returns whether a header value with parts between commas ("gzip, chunked") has this part.
bool HasToken(std::string_view value, std::string_view token);
// Returns the value of a hexadecimal digit; -1: not one.
int HexDigit(char character);
// Removes spaces and tabs from both ends.
std::string_view Trimmed(std::string_view text);
// Returns the text before the next `separator`, and removes both from `rest`.
std::string_view TakeUntil(std::string_view& rest, char separator);

}  // namespace kvd::http
