#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/iteration.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
namespace {

std::string_view SymbolOf(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd: return "+";
    case BinaryOperator::kSubtract: return "-";
    case BinaryOperator::kMultiply: return "*";
    case BinaryOperator::kDivide: return "/";
    case BinaryOperator::kFloorDivide: return "//";
    case BinaryOperator::kModulo: return "%";
    case BinaryOperator::kPower: return "** or pow()";
  }
  return "?";
}

std::unexpected<Error> FailTypes(BinaryOperator op, const Value& a, const Value& b) {
  return Fail(Code::kInvalidArgument, "unsupported operand type(s) for ", SymbolOf(op), ": '",
              TypeName(a), "' and '", TypeName(b), "'");
}

std::unexpected<Error> FailLargeInteger() {
  return Fail(Code::kUnsupported, "an integer exceeds 64 bits");
}

int Sign(long double difference) { return difference < 0 ? -1 : difference > 0 ? 1 : 0; }

// An x86 long double holds every int64 and every double.
long double WideNumber(const Value& value) {
  return value.is_float() ? static_cast<long double>(value.real())
                          : static_cast<long double>(value.integer());
}

// Python's float modulo: the result has the sign of the divisor.
double FloatModulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

double FloatFloorDivide(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

Result<Value> IntegerPower(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return FailLargeInteger();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return FailLargeInteger();
  }
  return Value::Int(result);
}

Result<Value> FloatPower(double base, double exponent) {
  if (base == 0 && exponent < 0) {
    return Fail(Code::kInvalidArgument, "0.0 cannot be raised to a negative power");
  }
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    return Fail(Code::kUnsupported, "complex numbers are not supported");
  }
  const double power = std::pow(base, exponent);
  if (std::isinf(power) && std::isfinite(base) && std::isfinite(exponent)) {
    return Fail(Code::kInvalidArgument, "the result of ** is too large for a float");
  }
  return Value::Float(power);
}

Result<Value> CalculateIntegers(BinaryOperator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return FailLargeInteger();
      return Value::Int(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return FailLargeInteger();
      return Value::Int(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return FailLargeInteger();
      return Value::Int(result);
    case BinaryOperator::kDivide:
      if (b == 0) return Fail(Code::kInvalidArgument, "division by zero");
      return Value::Float(static_cast<double>(static_cast<long double>(a) / b));
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo: {
      if (b == 0) return Fail(Code::kInvalidArgument, "integer division or modulo by zero");
      if (b == -1) {  // the machine's division of the smallest integer by -1 overflows
        if (op == BinaryOperator::kModulo) return Value::Int(0);
        if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) return FailLargeInteger();
        return Value::Int(result);
      }
      const bool rounds_up = a % b != 0 && ((a % b < 0) != (b < 0));
      if (op == BinaryOperator::kFloorDivide) return Value::Int(a / b - (rounds_up ? 1 : 0));
      return Value::Int(a % b + (rounds_up ? b : 0));
    }
    case BinaryOperator::kPower:
      if (b >= 0) return IntegerPower(a, b);
      return FloatPower(static_cast<double>(a), static_cast<double>(b));
  }
  return FailLargeInteger();
}

Result<Value> CalculateFloats(BinaryOperator op, double a, double b) {
  const bool divides = op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide ||
                       op == BinaryOperator::kModulo;
  if (divides && b == 0) return Fail(Code::kInvalidArgument, "float division by zero");
  switch (op) {
    case BinaryOperator::kAdd: return Value::Float(a + b);
    case BinaryOperator::kSubtract: return Value::Float(a - b);
    case BinaryOperator::kMultiply: return Value::Float(a * b);
    case BinaryOperator::kDivide: return Value::Float(a / b);
    case BinaryOperator::kFloorDivide: return Value::Float(FloatFloorDivide(a, b));
    case BinaryOperator::kModulo: return Value::Float(FloatModulo(a, b));
    case BinaryOperator::kPower: return FloatPower(a, b);
  }
  return FailLargeInteger();
}

Result<Value> JoinStrings(Interpreter& interpreter, const Value& a, const Value& b) {
  const bool is_safe = a.text().is_safe || b.text().is_safe;
  const auto part = [is_safe](const Value& value) {
    return is_safe && !value.text().is_safe ? EscapeHtml(value.view()) : std::string(value.view());
  };
  KVD_CHECK_OK(interpreter.budget().CheckRoom(a.view().size() + b.view().size()));
  return interpreter.budget().String(part(a) + part(b), is_safe);
}

Result<Value> JoinSequences(Interpreter& interpreter, const Value& a, const Value& b) {
  KVD_CHECK_OK(interpreter.budget().CheckRoom(a.items().size() + b.items().size(), sizeof(Value)));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is_list() ? interpreter.budget().List(std::move(items))
                     : interpreter.budget().Tuple(std::move(items));
}

Result<Value> Add(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return JoinStrings(interpreter, a, b);
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    return JoinSequences(interpreter, a, b);
  }
  if (a.is_string() || a.is_sequence()) {
    return Fail(Code::kInvalidArgument, "can only concatenate ", TypeName(a), " (not \"",
                TypeName(b), "\") to ", TypeName(a));
  }
  return FailTypes(BinaryOperator::kAdd, a, b);
}

Result<Value> Repeat(Interpreter& interpreter, const Value& value, std::int64_t signed_count) {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(signed_count, 0));
  Budget& budget = interpreter.budget();
  if (value.is_string()) {
    KVD_CHECK_OK(budget.CheckRoom(count, value.view().size()));
    std::string text;
    text.reserve(count * value.view().size());
    if (!value.view().empty()) {
      for (std::uint64_t i = 0; i < count; ++i) text += value.view();
    }
    return budget.String(std::move(text), value.text().is_safe);
  }
  KVD_CHECK_OK(budget.CheckRoom(count, value.items().size() * sizeof(Value)));
  std::vector<Value> items;
  if (!value.items().empty()) {
    for (std::uint64_t i = 0; i < count; ++i) {
      items.insert(items.end(), value.items().begin(), value.items().end());
    }
  }
  return value.is_list() ? budget.List(std::move(items)) : budget.Tuple(std::move(items));
}

// Orders two values: negative, 0 or positive. NaN compares as equal; Compare() handles it.
Result<int> Order(Interpreter& interpreter, std::string_view symbol, const Value& a,
                  const Value& b) {
  KVD_CHECK_OK(interpreter.budget().Step());
  if (a.is_undefined()) return FailUndefined(a);
  if (b.is_undefined()) return FailUndefined(b);
  if (a.is_number() && b.is_number()) return Sign(WideNumber(a) - WideNumber(b));
  if (a.is_string() && b.is_string()) return a.view().compare(b.view());
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const std::size_t common = std::min(a.items().size(), b.items().size());
    for (std::size_t i = 0; i < common; ++i) {
      if (a.items()[i].IsSameAs(b.items()[i])) continue;
      KVD_TRY(const bool is_equal, AreEqual(interpreter, a.items()[i], b.items()[i]));
      if (!is_equal) return Order(interpreter, symbol, a.items()[i], b.items()[i]);
    }
    return Sign(static_cast<long double>(a.items().size()) -
                static_cast<long double>(b.items().size()));
  }
  return Fail(Code::kInvalidArgument, "'", symbol, "' not supported between instances of '",
              TypeName(a), "' and '", TypeName(b), "'");
}

bool IsNan(const Value& value) { return value.is_float() && std::isnan(value.real()); }

}  // namespace

std::unexpected<Error> FailUndefined(const Value& value) {
  const UndefinedReason* reason = value.reason();
  return Fail(Code::kInvalidArgument,
              reason == nullptr ? std::string("the value is undefined") : reason->Message());
}

Result<std::int64_t> IntegerOf(const Value& value, std::string_view what) {
  if (value.is_integral()) return value.integer();
  if (value.is_undefined()) return FailUndefined(value);
  return Fail(Code::kInvalidArgument, what, ": '", TypeName(value),
              "' object cannot be interpreted as an integer");
}

Result<bool> IsTrue(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone: return false;
    case Value::Kind::kBool: return value.truth();
    case Value::Kind::kInt: return value.integer() != 0;
    case Value::Kind::kFloat: return value.real() != 0;
    case Value::Kind::kString: return !value.view().empty();
    case Value::Kind::kList:
    case Value::Kind::kTuple: return !value.items().empty();
    case Value::Kind::kDict: return !value.dict().empty();
    case Value::Kind::kObject: {
      KVD_TRY(const std::optional<std::int64_t> length, ScriptOf(value).Length());
      return length.value_or(1) != 0;
    }
  }
  return false;
}

Result<bool> AreEqual(Interpreter& interpreter, const Value& a, const Value& b) {
  KVD_CHECK_OK(interpreter.budget().Step(std::min(a.node_count(), b.node_count())));
  return Equal(a, b);
}

Result<bool> IsLess(Interpreter& interpreter, const Value& a, const Value& b) {
  return Compare(interpreter, ComparisonOperator::kLess, a, b);
}

Result<bool> Compare(Interpreter& interpreter, ComparisonOperator op, const Value& a,
                     const Value& b) {
  const auto order = [&](std::string_view symbol, const auto& is_wanted) -> Result<bool> {
    KVD_TRY(const int sign, Order(interpreter, symbol, a, b));
    return is_wanted(sign) && !IsNan(a) && !IsNan(b);
  };
  switch (op) {
    case ComparisonOperator::kEqual: return AreEqual(interpreter, a, b);
    case ComparisonOperator::kNotEqual: {
      KVD_TRY(const bool is_equal, AreEqual(interpreter, a, b));
      return !is_equal;
    }
    case ComparisonOperator::kLess: return order("<", [](int sign) { return sign < 0; });
    case ComparisonOperator::kLessEqual: return order("<=", [](int sign) { return sign <= 0; });
    case ComparisonOperator::kGreater: return order(">", [](int sign) { return sign > 0; });
    case ComparisonOperator::kGreaterEqual: return order(">=", [](int sign) { return sign >= 0; });
    case ComparisonOperator::kIn: return Contains(interpreter, b, a);
    case ComparisonOperator::kNotIn: {
      KVD_TRY(const bool is_inside, Contains(interpreter, b, a));
      return !is_inside;
    }
  }
  return false;
}

Result<bool> Contains(Interpreter& interpreter, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return Fail(Code::kInvalidArgument, "'in <string>' requires string as left operand, not ",
                  TypeName(item));
    }
    KVD_CHECK_OK(interpreter.budget().Step(1 + container.view().size() / 64));
    return container.view().find(item.view()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    if (!item.Hash()) {
      return Fail(Code::kInvalidArgument, "unhashable type: '", TypeName(item), "'");
    }
    return container.dict().Contains(item);
  }
  if (!IsIterable(container)) {
    return Fail(Code::kInvalidArgument, "argument of type '", TypeName(container),
                "' is not iterable");
  }
  KVD_TRY(const IteratorPtr iterator, IterateOver(interpreter, container));
  while (true) {
    KVD_TRY(const std::optional<Value> other, iterator->Next());
    if (!other) return false;
    if (other->IsSameAs(item)) return true;
    KVD_TRY(const bool is_equal, AreEqual(interpreter, *other, item));
    if (is_equal) return true;
  }
}

Result<Value> Calculate(Interpreter& interpreter, BinaryOperator op, const Value& a,
                        const Value& b) {
  if (a.is_undefined()) return FailUndefined(a);
  if (b.is_undefined()) return FailUndefined(b);
  if (a.is_integral() && b.is_integral()) return CalculateIntegers(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return CalculateFloats(op, a.number(), b.number());
  if (op == BinaryOperator::kAdd) return Add(interpreter, a, b);
  if (op == BinaryOperator::kMultiply) {
    const auto repeats = [](const Value& value) {
      return value.is_string() || value.is_sequence();
    };
    if (repeats(a) && b.is_integral()) return Repeat(interpreter, a, b.integer());
    if (repeats(b) && a.is_integral()) return Repeat(interpreter, b, a.integer());
  }
  return FailTypes(op, a, b);
}

Result<Value> Negate(const Value& value) {
  if (value.is_undefined()) return FailUndefined(value);
  if (value.is_float()) return Value::Float(-value.real());
  if (!value.is_integral()) {
    return Fail(Code::kInvalidArgument, "bad operand type for unary -: '", TypeName(value), "'");
  }
  if (value.integer() == std::numeric_limits<std::int64_t>::min()) return FailLargeInteger();
  return Value::Int(-value.integer());
}

Result<SliceRange> FindSlice(std::int64_t count, const Value& start, const Value& stop,
                             const Value& step) {
  const auto is_absent = [](const Value& value) { return value.is_missing() || value.is_none(); };
  const auto index_of = [](const Value& value) -> Result<std::int64_t> {
    if (value.is_integral()) return value.integer();
    return Fail(Code::kInvalidArgument, "slice indices must be integers or None");
  };
  SliceRange range;
  if (!is_absent(step)) {
    KVD_TRY(range.step, index_of(step));
    if (range.step == 0) return Fail(Code::kInvalidArgument, "slice step cannot be zero");
  }
  const bool is_forward = range.step > 0;
  const std::int64_t low = is_forward ? 0 : -1, high = is_forward ? count : count - 1;
  const auto clamped = [&](const Value& value, std::int64_t absent) -> Result<std::int64_t> {
    if (is_absent(value)) return absent;
    KVD_TRY(std::int64_t index, index_of(value));
    if (index < 0) index += count;
    return std::clamp(index, low, std::max(low, high));
  };
  KVD_TRY(range.start, clamped(start, is_forward ? low : high));
  KVD_TRY(const std::int64_t end, clamped(stop, is_forward ? high : low));
  const std::int64_t distance = is_forward ? end - range.start : range.start - end;
  if (distance > 0) {
    const std::uint64_t stride = is_forward
                                     ? static_cast<std::uint64_t>(range.step)
                                     : std::uint64_t{0} - static_cast<std::uint64_t>(range.step);
    range.count =
        static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1);
  }
  return range;
}

}  // namespace kvd::jinja
