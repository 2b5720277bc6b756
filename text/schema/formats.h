// The values of the keyword "format" that are enforced, as regular expressions.
#pragma once

#include <string_view>

#include "text/schema/regex.h"

namespace kvd::schema {

// Returns the texts of a format; null if the format is not enforced. The result lives until the
// process ends, and may be used by any thread.
const RegexNode* FindFormat(std::string_view name);

}  // namespace kvd::schema
