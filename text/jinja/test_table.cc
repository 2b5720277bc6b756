// The tests: what may follow `is`.
#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace kvd::jinja {
namespace {

// Tests of the remainder: value % divisor == rest.
Result<Value> HasRest(Invocation& call, const Value& divisor, std::int64_t rest) {
  KVD_TRY(const Value modulo,
          Calculate(call.interpreter, BinaryOperator::kModulo, call.subject, divisor));
  return Value::Bool(Equal(modulo, Value::Int(rest)));
}

template <ComparisonOperator op>
Result<Value> TestComparison(Invocation& call) {
  KVD_TRY(const bool is_true, Compare(call.interpreter, op, call.subject, call[0]));
  return Value::Bool(is_true);
}

template <bool (Value::*is_kind)() const>
Result<Value> TestKind(Invocation& call) {
  return Value::Bool((call.subject.*is_kind)());
}

template <bool truth>
Result<Value> TestBool(Invocation& call) {
  return Value::Bool(call.subject.IsSameAs(Value::Bool(truth)));
}

Result<Value> TestDefined(Invocation& call) { return Value::Bool(!call.subject.is_undefined()); }
Result<Value> TestEven(Invocation& call) { return HasRest(call, Value::Int(2), 0); }
Result<Value> TestOdd(Invocation& call) { return HasRest(call, Value::Int(2), 1); }
Result<Value> TestDivisibleBy(Invocation& call) { return HasRest(call, call[0], 0); }

Result<Value> TestSequence(Invocation& call) {
  const Value& value = call.subject;
  if (value.is_object()) {
    KVD_TRY(const std::optional<std::int64_t> length, LengthOf(value));
    return Value::Bool(length.has_value() && ScriptOf(value).has_items());
  }
  return Value::Bool(value.is_string() || value.is_sequence() || value.is_dict() ||
                     value.is_undefined());
}

Result<Value> TestIterable(Invocation& call) { return Value::Bool(IsIterable(call.subject)); }

Result<Value> TestSameAs(Invocation& call) { return Value::Bool(call.subject.IsSameAs(call[0])); }

constexpr BuiltinFunction kEqual = TestComparison<ComparisonOperator::kEqual>;
constexpr BuiltinFunction kNotEqual = TestComparison<ComparisonOperator::kNotEqual>;
constexpr BuiltinFunction kLess = TestComparison<ComparisonOperator::kLess>;
constexpr BuiltinFunction kLessEqual = TestComparison<ComparisonOperator::kLessEqual>;
constexpr BuiltinFunction kGreater = TestComparison<ComparisonOperator::kGreater>;
constexpr BuiltinFunction kGreaterEqual = TestComparison<ComparisonOperator::kGreaterEqual>;

constexpr std::array kTests = std::to_array<BuiltinRow>({
    {"defined", "", TestDefined},
    {"undefined", "", TestKind<&Value::is_undefined>},
    {"none", "", TestKind<&Value::is_none>},
    {"boolean", "", TestKind<&Value::is_bool>},
    {"true", "", TestBool<true>},
    {"false", "", TestBool<false>},
    {"integer", "", TestKind<&Value::is_int>},
    {"float", "", TestKind<&Value::is_float>},
    {"number", "", TestKind<&Value::is_number>},
    {"string", "", TestKind<&Value::is_string>},
    {"mapping", "", TestKind<&Value::is_dict>},
    {"sequence", "", TestSequence},
    {"iterable", "", TestIterable},
    {"odd", "", TestOdd},
    {"even", "", TestEven},
    {"divisibleby", "num", TestDivisibleBy},
    {"sameas", "other", TestSameAs},
    {"in", "seq", TestComparison<ComparisonOperator::kIn>},
    {"==", "/ other", kEqual},
    {"eq", "/ other", kEqual},
    {"equalto", "/ other", kEqual},
    {"!=", "/ other", kNotEqual},
    {"ne", "/ other", kNotEqual},
    {">", "/ other", kGreater},
    {"gt", "/ other", kGreater},
    {"greaterthan", "/ other", kGreater},
    {">=", "/ other", kGreaterEqual},
    {"ge", "/ other", kGreaterEqual},
    {"<", "/ other", kLess},
    {"lt", "/ other", kLess},
    {"lessthan", "/ other", kLess},
    {"<=", "/ other", kLessEqual},
    {"le", "/ other", kLessEqual},
});

}  // namespace

const BuiltinRow* FindTest(std::string_view name) {
  const auto* const row = std::ranges::find(kTests, name, &BuiltinRow::name);
  return row == kTests.end() ? nullptr : row;
}

}  // namespace kvd::jinja
