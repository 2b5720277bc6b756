// Ranges of numbers as expressions over their digits. The functions are pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "text/schema/decimal.h"
#include "text/schema/expression.h"

namespace kvd::schema {

// `min` to `max` digits.
Expression Digits(std::size_t min, std::size_t max);

// Whole numbers from `low` to `high` without a sign and leading zeros. REQUIRES: low <= high.
Expression WholeRange(const std::string& low, const std::string& high);

// Numbers from `low` to `high` without a sign: whole digits, and at most `digit_count` digits after
// a point. Both bounds have at most `digit_count` digits after the point, which is at least 1.
// none: no upper bound but kWholeDigitsMax digits. REQUIRES: low <= high.
Expression DecimalRange(const Decimal& low, const std::optional<Decimal>& high,
                        std::size_t digit_count);

}  // namespace kvd::schema
