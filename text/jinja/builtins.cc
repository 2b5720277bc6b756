// The tables of filters, tests, methods and global functions.
#include "text/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"

namespace kvd::jinja {

// ---- filter table

namespace {

// Sorted by name.
constexpr std::array kFilters = std::to_array<BuiltinRow>({
    {"capitalize", "", FilterCapitalize},
    {"count", "", FilterLength},
    {"d", "default_value? boolean?", FilterDefault},
    {"default", "default_value? boolean?", FilterDefault},
    {"dictsort", "case_sensitive? by? reverse?", FilterDictSort},
    {"first", "", FilterFirst},
    {"float", "default?", FilterFloat},
    {"indent", "width? first? blank?", FilterIndent},
    {"int", "default? base?", FilterInt},
    {"items", "", FilterItems},
    {"join", "d? attribute?", FilterJoin},
    {"last", "", FilterLast},
    {"length", "", FilterLength},
    {"list", "", FilterList},
    {"lower", "", FilterLower},
    {"map", "*", FilterMap},
    {"max", "case_sensitive? attribute?", FilterMax},
    {"min", "case_sensitive? attribute?", FilterMin},
    {"reject", "*", FilterReject},
    {"rejectattr", "*", FilterRejectAttr},
    {"replace", "old new count?", FilterReplace},
    {"reverse", "", FilterReverse},
    {"safe", "", FilterSafe},
    {"select", "*", FilterSelect},
    {"selectattr", "*", FilterSelectAttr},
    {"sort", "reverse? case_sensitive? attribute?", FilterSort},
    {"string", "", FilterString},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", FilterToJson},
    {"trim", "chars?", FilterTrim},
    {"unique", "case_sensitive? attribute?", FilterUnique},
    {"upper", "", FilterUpper},
});

}  // namespace

const BuiltinRow* FindFilter(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kFilters, name, {}, &BuiltinRow::name);
  return found != kFilters.end() && found->name == name ? found : nullptr;
}

// ---- test table
// The tests: what may follow `is`.

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

// ---- method table
// The methods of strings, lists and dicts.

namespace {

Result<Value> DictGet(Invocation& call) {
  if (!call[0].Hash()) {
    return Fail(Code::kInvalidArgument, "unhashable type: '", TypeName(call[0]), "'");
  }
  if (call.subject.dict().Contains(call[0])) return call.subject.dict().Find(call[0]);
  return call.Has(1) ? call[1] : Value::None();
}

template <DictView::Part part>
Result<Value> DictPart(Invocation& call) {
  return call.interpreter.Make<DictView>(call.subject, part);
}

// Each table is sorted by name.
constexpr std::array kStringMethods = std::to_array<BuiltinRow>({
    {"capitalize", "", StringCapitalize},
    {"endswith", "/ suffix start? end?", StringEndsWith},
    {"find", "/ sub start? end?", StringFind},
    {"format", "*", StringFormat},
    {"join", "/ iterable", StringJoin},
    {"lower", "", StringLower},
    {"lstrip", "/ chars?", StringStripLeft},
    {"replace", "/ old new count?", StringReplace},
    {"rfind", "/ sub start? end?", StringFindLast},
    {"rsplit", "sep? maxsplit?", StringSplitLast},
    {"rstrip", "/ chars?", StringStripRight},
    {"split", "sep? maxsplit?", StringSplit},
    {"startswith", "/ prefix start? end?", StringStartsWith},
    {"strip", "/ chars?", StringStrip},
    {"upper", "", StringUpper},
});

constexpr std::array kListMethods = std::to_array<BuiltinRow>({
    {"append", kUnsafeParameters, nullptr},
    {"clear", "*", nullptr},
    {"extend", kUnsafeParameters, nullptr},
    {"insert", kUnsafeParameters, nullptr},
    {"pop", "*", nullptr},
    {"remove", kUnsafeParameters, nullptr},
    {"reverse", kUnsafeParameters, nullptr},
    {"sort", kUnsafeParameters, nullptr},
});

constexpr std::array kDictMethods = std::to_array<BuiltinRow>({
    {"clear", kUnsafeParameters, nullptr},
    {"get", "/ key default?", DictGet},
    {"items", "", DictPart<DictView::Part::kItems>},
    {"keys", "", DictPart<DictView::Part::kKeys>},
    {"pop", kUnsafeParameters, nullptr},
    {"popitem", kUnsafeParameters, nullptr},
    {"setdefault", kUnsafeParameters, nullptr},
    {"update", kUnsafeParameters, nullptr},
    {"values", "", DictPart<DictView::Part::kValues>},
});

std::span<const BuiltinRow> MethodsOf(const Value& receiver) {
  switch (receiver.kind()) {
    case Value::Kind::kString: return kStringMethods;
    case Value::Kind::kList: return kListMethods;
    case Value::Kind::kDict: return kDictMethods;
    default: return {};
  }
}

}  // namespace

const BuiltinRow* FindMethod(const Value& receiver, std::string_view name) {
  const std::span<const BuiltinRow> methods = MethodsOf(receiver);
  const auto found = std::ranges::lower_bound(methods, name, {}, &BuiltinRow::name);
  return found != methods.end() && found->name == name ? &*found : nullptr;
}

// ---- global table
// The global functions: Jinja2's own, and raise_exception() and strftime_now() of chat templates.

namespace {

Result<Value> Range(Invocation& call) {
  std::array<std::int64_t, 3> numbers = {0, 0, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!call.Has(i)) continue;
    KVD_TRY(numbers[i], IntegerOf(call[i], "range"));
  }
  if (!call.Has(1)) return MakeRange(call.interpreter, 0, numbers[0], 1);
  return MakeRange(call.interpreter, numbers[0], numbers[1], numbers[2]);
}

// The dict of dict(pairs or a dict, name=value, ...).
Result<Dict> DictOf(const Invocation& call) {
  const Arguments& arguments = call.arguments;
  if (arguments.positional.size() > 1) {
    return Fail(Code::kInvalidArgument, call.name, " expected at most 1 argument");
  }
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_undefined()) return FailUndefined(source);
    if (source.is_dict()) {
      dict = source.dict();
    } else {
      KVD_TRY(const std::vector<Value> pairs, ItemsOf(call.interpreter, source));
      for (const Value& pair : pairs) {
        KVD_TRY(const std::vector<Value> parts, ItemsOf(call.interpreter, pair));
        if (parts.size() != 2) {
          return Fail(Code::kInvalidArgument, call.name, ": an item has length ", parts.size(),
                      "; 2 is required");
        }
        if (!dict.Set(parts[0], parts[1])) {
          return Fail(Code::kInvalidArgument, "unhashable type: '", TypeName(parts[0]), "'");
        }
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(name, value);
  return dict;
}

Result<Value> MakeDict(Invocation& call) {
  KVD_TRY(Dict dict, DictOf(call));
  return call.interpreter.budget().Of(std::move(dict));
}

Result<Value> MakeNamespace(Invocation& call) {
  KVD_TRY(Dict dict, DictOf(call));
  return call.interpreter.Make<NamespaceObject>(std::move(dict));
}

Result<Value> RaiseException(Invocation& call) {
  KVD_TRY(std::string message, Str(call.interpreter, call[0]));
  return call.interpreter.FailVerbatim(std::move(message));
}

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  return local;
}

Result<Value> StrftimeNow(Invocation& call) {
  if (!call[0].is_string()) {
    return Fail(Code::kInvalidArgument, "strftime_now: the format must be a string");
  }
  const std::tm now = call.interpreter.budget().options().now.value_or(LocalTime());
  const std::string_view format = call[0].view();
  std::string text;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      text += format[i];
      continue;
    }
    const char letter = format[++i];
    if (letter == 'f') text += "000000";  // microseconds
    if (letter == 'f' || letter == 'z' || letter == 'Z') continue;
    const bool is_modified = letter == '-' && i + 1 < format.size();
    const std::string directive =
        is_modified ? std::string("%-") + format[++i] : std::string("%") + letter;
    std::array<char, 256> buffer;
    const std::size_t bytes = std::strftime(buffer.data(), buffer.size(), directive.c_str(), &now);
    text.append(buffer.data(), bytes);
  }
  return call.interpreter.budget().String(std::move(text));
}

constexpr std::array<BuiltinRow, 5> kGlobals = {{
    {"range", "/ a b? c?", Range},
    {"dict", "*", MakeDict},
    {"namespace", "*", MakeNamespace},
    {"raise_exception", "message", RaiseException},
    {"strftime_now", "format", StrftimeNow},
}};

}  // namespace

const BuiltinRow* FindGlobal(std::string_view name) {
  const auto* const row = std::ranges::find(kGlobals, name, &BuiltinRow::name);
  return row == kGlobals.end() ? nullptr : row;
}

}  // namespace kvd::jinja
