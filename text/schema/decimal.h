// Decimal: a number as its decimal digits, without rounding.
#pragma once

#include <cstddef>
#include <string>

#include "text/value.h"

namespace kvd::schema {

struct Decimal {
  bool is_negative = false;
  std::string whole = "0";  // no leading zeros, except for "0" itself
  std::string fraction;     // no zeros at the end

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// The digits of `number`; of a float, the fewest digits that read back as the same float.
// REQUIRES: number.is_int() or a finite float.
Decimal DecimalOf(const Value& number);

// Keeps at most `digit_count` digits after the point. With `up`, the magnitude is rounded up,
// otherwise down.
Decimal Rounded(Decimal number, std::size_t digit_count, bool up);

// Compares the whole parts of two numbers without signs: -1, 0, 1.
int CompareWhole(const std::string& a, const std::string& b);
// Compares magnitudes: -1, 0, 1.
int CompareMagnitude(const Decimal& a, const Decimal& b);

}  // namespace kvd::schema
