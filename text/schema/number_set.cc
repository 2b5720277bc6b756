#include "text/schema/number_set.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "text/schema/decimal.h"

namespace kvd::schema {

// ---- number set
// Comparisons of an int with a float use long double, which holds both exactly.

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

// ---- number rules
// A range is written as the texts of its negative numbers and the texts of the others.
//
// An exclusive bound becomes the nearest 64-bit float inside the range, in the fewest digits that
// read back as it. Rounding to 64-bit floats keeps the order, so each decimal number beyond these
// digits is rounded to this float or to one further inside the range.

namespace {

constexpr std::int64_t kMultiplesMax = 1024;  // that are written out
constexpr std::int64_t kStepMax = 1'000'000'000'000'000;
constexpr std::int64_t kExactMax = std::int64_t{1} << 53;

// The bounds of a range as decimal numbers, both included.
struct SignedRange {
  std::optional<Decimal> min;
  std::optional<Decimal> max;
};

// A bound as the greatest or the least number inside it with `digit_count` digits after the point.
Decimal Inside(const NumberBound& bound, bool is_min, std::size_t digit_count) {
  const double infinity = std::numeric_limits<double>::infinity();
  Value number = bound.number;
  const bool is_exact =
      number.is_float() || (number.integer() <= kExactMax && number.integer() >= -kExactMax);
  if (digit_count > 0 && (bound.is_exclusive || !is_exact)) {
    number = Value::Float(std::nextafter(number.number(), is_min ? infinity : -infinity));
  }
  Decimal decimal = DecimalOf(number);
  const bool is_above = decimal.fraction.size() > digit_count;
  const bool rounds_up = decimal.is_negative != is_min;
  decimal = Rounded(std::move(decimal), digit_count, rounds_up);
  if (digit_count > 0 || is_above || !bound.is_exclusive) return decimal;
  // The next whole number inside.
  Decimal one = decimal;
  one.fraction = "1";
  if (decimal.is_negative != is_min || decimal.is_zero()) {
    one = Rounded(std::move(one), 0, true);
    one.is_negative = decimal.is_zero() ? !is_min : decimal.is_negative;
    return one;
  }
  std::size_t i = decimal.whole.size();
  while (decimal.whole[--i] == '0') decimal.whole[i] = '9';
  --decimal.whole[i];
  const std::size_t first = decimal.whole.find_first_not_of('0');
  decimal.whole = first == std::string::npos ? "0" : decimal.whole.substr(first);
  return decimal;
}

SignedRange RangeOf(const NumberSet& set, std::size_t digit_count) {
  SignedRange range;
  if (set.min) range.min = Inside(*set.min, true, digit_count);
  if (set.max) range.max = Inside(*set.max, false, digit_count);
  return range;
}

// Texts of numbers from `low` on, without signs.
GrammarExpression Magnitudes(const Decimal& low, const std::optional<Decimal>& high,
                             std::size_t digit_count) {
  if (high && CompareMagnitude(low, *high) > 0) return Nothing();
  if (digit_count > 0) return DecimalRange(low, high, digit_count);
  const std::string greatest(std::max(kWholeDigitsMax, low.whole.size()), '9');
  return WholeRange(low.whole, high ? high->whole : greatest);
}

GrammarExpression Signed(const SignedRange& range, std::size_t digit_count) {
  const auto is_negative = [](const Decimal& number) {
    return number.is_negative && !number.is_zero();
  };
  std::vector<GrammarExpression> alternatives;
  const bool has_negative = !range.min || is_negative(*range.min);
  if (has_negative) {
    // "-0.0" is zero, which is in range here; whole numbers are written without "-0".
    Decimal least;
    if (digit_count == 0) least.whole = "1";
    if (range.max && is_negative(*range.max)) least = *range.max;
    alternatives.push_back(Sequence({Literal("-"), Magnitudes(least, range.min, digit_count)}));
  }
  const bool has_others = !range.max || !is_negative(*range.max);
  if (has_others) {
    const bool from_zero = !range.min || is_negative(*range.min);
    alternatives.push_back(Magnitudes(from_zero ? Decimal() : *range.min, range.max, digit_count));
  }
  return Choice(std::move(alternatives));
}

// The one whole number of which all numbers are multiples; none: none; Errors: too large.
Result<std::optional<std::int64_t>> WholeStep(const std::vector<Value>& multiples) {
  std::optional<std::int64_t> step;
  for (const Value& multiple : multiples) {
    if (multiple.is_float() && multiple.real() != std::trunc(multiple.real())) continue;
    if (multiple.number() > static_cast<double>(kStepMax))
      return Fail(Code::kUnsupported, "multipleOf: more than 1e15");
    const auto whole = std::max<std::int64_t>(1, static_cast<std::int64_t>(multiple.number()));
    const std::int64_t factor =
        step ? whole / std::max<std::int64_t>(1, std::gcd(*step, whole)) : whole;
    if (step && *step > kStepMax / factor)
      return Fail(Code::kUnsupported, "multipleOf: the least common multiple exceeds 1e15");
    step = step.value_or(1) * factor;
  }
  return step;
}

// Multiples of a divisor of a power of ten: the last digits decide. none: `step` is none. REQUIRES:
// step >= 2.
std::optional<GrammarExpression> MultiplesByEnding(std::int64_t step, bool may_be_negative) {
  std::size_t digit_count = 0;
  std::int64_t power = 1;
  while (power % step != 0 && digit_count < kWholeDigitsMax - 1) {
    power *= 10;
    ++digit_count;
  }
  if (power % step != 0 || power / step > kMultiplesMax) return std::nullopt;
  std::vector<GrammarExpression> endings;
  std::vector<GrammarExpression> small;
  for (std::int64_t number = 0; number < power; number += step) {
    std::string digits = std::to_string(number);
    if (number > 0) small.push_back(Literal(digits));
    endings.push_back(Literal(std::string(digit_count - digits.size(), '0') + digits));
  }
  GrammarExpression magnitude =
      Choice({Sequence({ClassOf(CodePointSet::Of({{'1', '9'}})),
                        Digits(0, kWholeDigitsMax - 1 - digit_count), Choice(std::move(endings))}),
              Choice(std::move(small))});
  if (may_be_negative) magnitude = Sequence({Optional(Literal("-")), std::move(magnitude)});
  return Choice({Literal("0"), std::move(magnitude)});
}

std::optional<std::int64_t> SmallNumber(const std::optional<Decimal>& number) {
  if (!number || number->whole.size() > 15) return std::nullopt;
  const std::int64_t magnitude = std::stoll(number->whole);
  return number->is_negative ? -magnitude : magnitude;
}

Result<GrammarExpression> WholeMultiples(const NumberSet& set, std::int64_t step) {
  const SignedRange range = RangeOf(set, 0);
  const auto min = SmallNumber(range.min);
  const auto max = SmallNumber(range.max);
  if (min && max) {
    std::int64_t first = *min / step * step;
    if (first < *min) first += step;
    if (*max >= first && (*max - first) / step >= kMultiplesMax)
      return Fail(Code::kUnsupported, "multipleOf: more than ", kMultiplesMax,
                  " multiples between the bounds");
    std::vector<GrammarExpression> numbers;
    for (std::int64_t number = first; number <= *max; number += step)
      numbers.push_back(Literal(std::to_string(number)));
    return Choice(std::move(numbers));
  }
  const bool from_zero = min && *min <= 0 && *min > -step;
  if (!range.max && (!range.min || from_zero)) {
    if (auto rule = MultiplesByEnding(step, !range.min)) return *std::move(rule);
  }
  return Fail(Code::kUnsupported, "multipleOf: ", step,
              " needs a minimum and a maximum with few multiples between them");
}

// The number of digits after the point of multiples of 1, 0.1, 0.01, ...
std::optional<std::size_t> FractionDigits(const std::vector<Value>& multiples) {
  std::size_t digit_count = kFractionDigitsMax;
  for (const Value& multiple : multiples) {
    const Decimal step = DecimalOf(multiple);
    if (step.whole != "0") return std::nullopt;
    const std::size_t first = step.fraction.find_first_not_of('0');
    if (first + 1 != step.fraction.size() || step.fraction.back() != '1') return std::nullopt;
    if (step.fraction.size() > kFractionDigitsMax) return std::nullopt;
    digit_count = std::min(digit_count, step.fraction.size());
  }
  return digit_count;
}

}  // namespace

Result<GrammarExpression> NumberRule(const NumberSet& set, RuleBook& book) {
  if (set.is_unlimited())
    return book.Shared(set.is_whole ? SharedRule::kInteger : SharedRule::kNumber);
  KVD_TRY(const std::optional<std::int64_t> step, WholeStep(set.multiples));
  if (step || set.is_whole) {
    for (const Value& multiple : set.multiples) {
      // 1 is a multiple of 0.1, 0.01, ..., so a whole number is one, too.
      const bool is_whole = !multiple.is_float() || multiple.real() == std::trunc(multiple.real());
      if (!is_whole && !FractionDigits({multiple}))
        return Fail(Code::kUnsupported, "multipleOf: a fraction that is no power of ten");
    }
    if (step && *step != 1) return WholeMultiples(set, *step);
    return Signed(RangeOf(set, 0), 0);
  }
  const auto digit_count = FractionDigits(set.multiples);
  if (!digit_count)
    return Fail(Code::kUnsupported, "multipleOf: a fraction that is no power of ten");
  return Signed(RangeOf(set, *digit_count), *digit_count);
}

}  // namespace kvd::schema
