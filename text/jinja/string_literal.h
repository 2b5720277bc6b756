// Resolves the escapes of a string literal.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd::jinja {

// `literal` is the text between the quotes. Python's escapes are resolved; others stay as they are.
// Errors: kInvalidArgument: an escape lacks digits or is above U+10FFFF; kUnsupported: \N{...}, and
// surrogates, which UTF-8 cannot represent.
Result<std::string> UnescapeString(std::string_view literal);

}  // namespace kvd::jinja
