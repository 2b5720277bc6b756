// NumberSet: the numbers that a schema's numeric keywords allow, and their texts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/schema/expression.h"
#include "text/schema/rule_book.h"
#include "text/value.h"

namespace kvd::schema {

struct NumberBound {
  Value number;  // an int or a finite float
  bool is_exclusive = false;
};

struct NumberSet {
  bool is_whole = false;  // JSON Schema's integer; 1.0 is one
  std::optional<NumberBound> min;
  std::optional<NumberBound> max;
  std::vector<Value> multiples;  // multipleOf; positive

  bool is_unlimited() const { return !min && !max && multiples.empty(); }
};

NumberSet Intersection(const NumberSet& a, const NumberSet& b);
bool Contains(const NumberSet& set, const Value& number);
// Returns whether the ranges have no number in common; false if that is not known.
bool AreDisjoint(const NumberSet& a, const NumberSet& b);

// The texts of the numbers: whole ones without point and exponent, and others without exponent if
// the set has a bound or a multiple. At most kWholeDigitsMax digits before and kFractionDigitsMax
// digits after the point. A text is in range also after it is rounded to a 64-bit float. Errors:
// kUnsupported: multipleOf is neither a power of ten of at least 1e-16 nor a whole number that has
// few multiples in the range or, without bounds, few endings; the message begins with "multipleOf".
Result<GrammarExpression> NumberRule(const NumberSet& set, RuleBook& book);

}  // namespace kvd::schema
