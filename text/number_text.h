// Numbers as Python's repr() writes them. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvd {

// The shortest digits that read back as `number`: "1.0", "1e-05", "1e+16", "inf", "nan".
std::string FloatText(double number);

// Reads a number without white space, sign included, and all of `text`; none if it is not one, or
// if an integer exceeds 64 bits.
std::optional<std::int64_t> ParseInteger(std::string_view text, int base = 10);
// As above; accepts an exponent, and rounds correctly. A number that is too large is infinite.
std::optional<double> ParseFloat(std::string_view text);

}  // namespace kvd
