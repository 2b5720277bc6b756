// JSON in both directions, as Python's module json has it. The functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/value.h"

namespace kvd {

struct JsonLimits {
  std::size_t bytes_max = 64u << 20;  // of the text
  std::uint32_t nesting_max = 128;    // levels of arrays and objects
  // Memory of the value, in units of at most 64 bytes. A number, true, false or null costs 1, a
  // text 2 and one more for each 64 bytes, an array 2, an object 4, and each of its keys as much as
  // a text.
  std::uint64_t units_max = 1u << 20;
};

// Reads one JSON value. Keys keep their order; of equal keys the last one wins. Integers become
// ints and must fit 64 bits; numbers with a fraction or an exponent become floats and must be in
// their range (Python reads 1e400 as infinity, which JSON cannot write). Errors:
// kInvalidArgument with the line and column of the mistake; kTooLarge: a limit is exceeded (the
// message names it); kNoSpace: no memory.
Result<Value> ParseJson(std::string_view text, const JsonLimits& limits = {});

struct JsonStyle {
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::optional<std::string> indent =
      std::nullopt;  // of one level; with it, every item has a line of its own
  bool escape_non_ascii = false;
  bool sort_keys = false;
  std::size_t bytes_max = 64u << 20;  // of the result
};

// Writes a value as json.dumps() does: "[1, 2.0, null]", tuples as arrays, numbers and None as keys
// in quotes, NaN and Infinity by these names. Errors: kInvalidArgument: a value or key of a kind
// that JSON lacks, or keys that cannot be sorted; kTooLarge: bytes_max.
Result<std::string> WriteJson(const Value& value, const JsonStyle& style = {});

}  // namespace kvd
