// Values as JSON has them: equality, compact text, and the check of a caller's value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/value.h"

namespace kvd::schema {

// Returns whether both are the same JSON value: 1 equals 1.0, true differs from 1, and the order of
// an object's members does not matter.
bool SameJson(const Value& a, const Value& b);

// The text without whitespace. REQUIRES: CheckJson accepts the value.
std::string CompactJson(const Value& value);

// Checks that a value has only kinds of JSON: null, bool, int, finite float, valid UTF-8, lists,
// and dicts with texts as keys. Errors: kInvalidArgument: another kind, or a limit is exceeded; the
// message begins with the JSON pointer of the part.
Status CheckJson(const Value& value, std::uint32_t nesting_max, std::uint64_t node_count_max);

// Appends one step to a JSON pointer in a URI's fragment ("#/a"): "/" and "~" are escaped.
std::string PointerTo(const std::string& pointer, std::string_view key);
std::string PointerTo(const std::string& pointer, std::size_t index);

}  // namespace kvd::schema
