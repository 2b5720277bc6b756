// Comparisons of an int with a float use long double, which holds both exactly.
#include "text/schema/number_set.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace kvd::schema {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64);

long double Exact(const Value& number) {
  return number.is_float() ? static_cast<long double>(number.real())
                           : static_cast<long double>(number.integer());
}

// The tighter one of two bounds; `sign` is 1 for lower bounds and -1 for upper ones.
std::optional<NumberBound> Tighter(const std::optional<NumberBound>& a,
                                   const std::optional<NumberBound>& b, int sign) {
  if (!a || !b) return a ? a : b;
  const long double x = sign * Exact(a->number);
  const long double y = sign * Exact(b->number);
  if (x != y) return x > y ? a : b;
  return a->is_exclusive ? a : b;
}

// Lower bound above upper bound, or equal to it where one of the two is exclusive.
bool IsEmptyRange(const std::optional<NumberBound>& min, const std::optional<NumberBound>& max) {
  if (!min || !max) return false;
  const long double low = Exact(min->number);
  const long double high = Exact(max->number);
  return low > high || (low == high && (min->is_exclusive || max->is_exclusive));
}

bool IsMultiple(const Value& number, const Value& step) {
  if (number.is_int() && step.is_int()) return number.integer() % step.integer() == 0;
  const long double quotient = Exact(number) / Exact(step);
  return std::abs(quotient - std::round(quotient)) < 1e-9L;
}

}  // namespace

NumberSet Intersection(const NumberSet& a, const NumberSet& b) {
  NumberSet both = a;
  both.is_whole = a.is_whole || b.is_whole;
  both.min = Tighter(a.min, b.min, 1);
  both.max = Tighter(a.max, b.max, -1);
  both.multiples.insert(both.multiples.end(), b.multiples.begin(), b.multiples.end());
  return both;
}

bool Contains(const NumberSet& set, const Value& number) {
  const long double value = Exact(number);
  if (set.is_whole && value != std::trunc(value)) return false;
  const NumberBound itself{number, false};
  if (IsEmptyRange(set.min, itself) || IsEmptyRange(itself, set.max)) return false;
  for (const Value& step : set.multiples)
    if (!IsMultiple(number, step)) return false;
  return true;
}

bool AreDisjoint(const NumberSet& a, const NumberSet& b) {
  return IsEmptyRange(a.min, b.max) || IsEmptyRange(b.min, a.max) || IsEmptyRange(a.min, a.max) ||
         IsEmptyRange(b.min, b.max);
}

}  // namespace kvd::schema
