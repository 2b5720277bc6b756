// Divides the source of a template into tokens.
//
// White space is treated as with trim_blocks and lstrip_blocks: the line end after a tag {% %} or a
// comment is dropped, and so is the white space between the beginning of a line and such a tag.
// "-" inside a delimiter drops all white space on its side, "+" keeps it. {% raw %} is resolved
// here. One line end at the end of the template is dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/token.h"

namespace kvd::jinja {

// The last token is kEnd. Errors: kInvalidArgument with the place; kUnsupported: an integer of more
// than 64 bits, an escape \N{...} or a surrogate.
Result<std::vector<Token>> Tokenize(std::string_view source);

// "template line 2, column 7: PROBLEM".
std::string AtPlace(const Place& place, std::string_view problem);

}  // namespace kvd::jinja
