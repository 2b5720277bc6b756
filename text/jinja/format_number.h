// Formats one value by a specification, as Python's format() and "%" do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

// [[fill]align][sign][z][#][0][width][grouping][.precision][type]
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '=', '^', or 0 for the default of the type
  bool is_zero_padded = false;
  char sign = '-';
  bool is_alternate = false;
  std::int64_t width = 0;
  char grouping = 0;  // ',', '_' or 0
  std::optional<std::int64_t> precision;
  char type = 0;
};

inline constexpr std::int64_t kPrecisionMax = 10'000;

// Errors: kInvalidArgument: not a specification; kUnsupported: a number that is too large.
Result<FormatSpec> ParseFormatSpec(std::string_view text);

// format(value, spec) for a string or a number. Errors: kInvalidArgument: the type does not fit.
Result<std::string> FormatValue(Interpreter& interpreter, const Value& value,
                                const FormatSpec& spec);
// The value in the float format `type` (e, E, f, F, g, G), without sign for positive numbers.
std::string FloatDigits(double number, char type, std::int64_t precision, bool is_alternate);
// The digits of an integer in base 2, 8, 10 or 16, without sign.
std::string IntegerDigits(std::int64_t number, unsigned base);

}  // namespace kvd::jinja
