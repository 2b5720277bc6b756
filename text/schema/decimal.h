// Numbers as their decimal digits: without rounding, and ranges of them as expressions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "text/schema/expression.h"
#include "text/value.h"

namespace kvd::schema {

// Decimal: a number as its decimal digits, without rounding.
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

// Ranges of numbers as expressions over their digits. The functions are pure.

// `min` to `max` digits.
GrammarExpression Digits(std::size_t min, std::size_t max);

// Whole numbers from `low` to `high` without a sign and leading zeros. REQUIRES: low <= high.
GrammarExpression WholeRange(const std::string& low, const std::string& high);

// Numbers from `low` to `high` without a sign: whole digits, and at most `digit_count` digits after
// a point. Both bounds have at most `digit_count` digits after the point, which is at least 1.
// none: no upper bound but kWholeDigitsMax digits. REQUIRES: low <= high.
GrammarExpression DecimalRange(const Decimal& low, const std::optional<Decimal>& high,
                               std::size_t digit_count);

}  // namespace kvd::schema
