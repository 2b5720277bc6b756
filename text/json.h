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
};

// Reads one JSON value. Keys keep their order; of equal keys the last one wins. Integers become
// ints and must fit 64 bits; numbers with a fraction or an exponent become floats. Errors:
// kInvalidArgument with the line and column of the mistake; kNoSpace: a limit is exceeded.
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
// that JSON lacks, or keys that cannot be sorted; kNoSpace: bytes_max.
Result<std::string> WriteJson(const Value& value, const JsonStyle& style = {});

}  // namespace kvd
