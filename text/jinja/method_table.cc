// The methods of strings, lists, tuples, dicts and numbers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "text/jinja/builtins.h"
#include "text/jinja/dict_view.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"

namespace kvd::jinja {
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

Result<Value> DictCopy(Invocation& call) {
  return call.interpreter.budget().Of(Dict(call.subject.dict()));
}

Result<Value> ListCopy(Invocation& call) {
  return call.interpreter.budget().List(call.subject.items());
}

Result<Value> SequenceCount(Invocation& call) {
  std::int64_t count = 0;
  for (const Value& item : call.subject.items()) {
    KVD_TRY(const bool is_equal, AreEqual(call.interpreter, item, call[0]));
    count += is_equal || item.IsSameAs(call[0]) ? 1 : 0;
  }
  return Value::Int(count);
}

Result<Value> SequenceIndex(Invocation& call) {
  const std::vector<Value>& items = call.subject.items();
  KVD_TRY(const SliceRange range,
          FindSlice(static_cast<std::int64_t>(items.size()), call[1], call[2], Value()));
  for (std::int64_t i = range.start; i < range.start + range.count; ++i) {
    const Value& item = items[static_cast<std::size_t>(i)];
    KVD_TRY(const bool is_equal, AreEqual(call.interpreter, item, call[0]));
    if (is_equal || item.IsSameAs(call[0])) return Value::Int(i);
  }
  KVD_TRY(const std::string text, Repr(call.interpreter, call[0]));
  return Fail(Code::kInvalidArgument, text, " is not in ", TypeName(call.subject));
}

Result<Value> IntegerBitLength(Invocation& call) {
  const std::int64_t number = call.subject.integer();
  auto size = static_cast<std::uint64_t>(number);
  if (number < 0) size = std::uint64_t{0} - size;
  return Value::Int(std::bit_width(size));
}

Result<Value> NumberConjugate(Invocation& call) {
  return call.subject.is_float() ? call.subject : Value::Int(call.subject.integer());
}

Result<Value> FloatIsInteger(Invocation& call) {
  const double number = call.subject.real();
  return Value::Bool(std::isfinite(number) && number == std::floor(number));
}

// Each table is sorted by name.
constexpr std::array kStringMethods = std::to_array<BuiltinRow>({
    {"capitalize", "", StringCapitalize},
    {"casefold", "", StringCaseFold},
    {"center", "/ width fillchar?", StringCenter},
    {"count", "/ sub start? end?", StringCount},
    {"encode", "*", nullptr},
    {"endswith", "/ suffix start? end?", StringEndsWith},
    {"expandtabs", "tabsize?", StringExpandTabs},
    {"find", "/ sub start? end?", StringFind},
    {"format", "*", StringFormat},
    {"format_map", "*", nullptr},
    {"index", "/ sub start? end?", StringIndex},
    {"isalnum", "", StringIsAlphanumeric},
    {"isalpha", "", StringIsAlpha},
    {"isascii", "", StringIsAscii},
    {"isdecimal", "", StringIsDecimal},
    {"isdigit", "", StringIsDigit},
    {"isidentifier", "", StringIsIdentifier},
    {"islower", "", StringIsLower},
    {"isnumeric", "", StringIsNumeric},
    {"isprintable", "", StringIsPrintable},
    {"isspace", "", StringIsSpace},
    {"istitle", "", StringIsTitle},
    {"isupper", "", StringIsUpper},
    {"join", "/ iterable", StringJoin},
    {"ljust", "/ width fillchar?", StringLeftJustify},
    {"lower", "", StringLower},
    {"lstrip", "/ chars?", StringStripLeft},
    {"maketrans", "*", nullptr},
    {"partition", "/ sep", StringPartition},
    {"removeprefix", "/ prefix", StringRemovePrefix},
    {"removesuffix", "/ suffix", StringRemoveSuffix},
    {"replace", "/ old new count?", StringReplace},
    {"rfind", "/ sub start? end?", StringFindLast},
    {"rindex", "/ sub start? end?", StringIndexLast},
    {"rjust", "/ width fillchar?", StringRightJustify},
    {"rpartition", "/ sep", StringPartitionLast},
    {"rsplit", "sep? maxsplit?", StringSplitLast},
    {"rstrip", "/ chars?", StringStripRight},
    {"split", "sep? maxsplit?", StringSplit},
    {"splitlines", "keepends?", StringSplitLines},
    {"startswith", "/ prefix start? end?", StringStartsWith},
    {"strip", "/ chars?", StringStrip},
    {"swapcase", "", StringSwapCase},
    {"title", "", StringTitle},
    {"translate", "*", nullptr},
    {"upper", "", StringUpper},
    {"zfill", "/ width", StringZeroFill},
});

constexpr std::array kListMethods = std::to_array<BuiltinRow>({
    {"append", kUnsafeParameters, nullptr},
    {"clear", "*", nullptr},
    {"copy", "", ListCopy},
    {"count", "/ value", SequenceCount},
    {"extend", kUnsafeParameters, nullptr},
    {"index", "/ value start? stop?", SequenceIndex},
    {"insert", kUnsafeParameters, nullptr},
    {"pop", "*", nullptr},
    {"remove", kUnsafeParameters, nullptr},
    {"reverse", kUnsafeParameters, nullptr},
    {"sort", kUnsafeParameters, nullptr},
});

constexpr std::array kTupleMethods = std::to_array<BuiltinRow>({
    {"count", "/ value", SequenceCount},
    {"index", "/ value start? stop?", SequenceIndex},
});

constexpr std::array kDictMethods = std::to_array<BuiltinRow>({
    {"clear", kUnsafeParameters, nullptr},
    {"copy", "", DictCopy},
    {"fromkeys", "*", nullptr},
    {"get", "/ key default?", DictGet},
    {"items", "", DictPart<DictView::Part::kItems>},
    {"keys", "", DictPart<DictView::Part::kKeys>},
    {"pop", kUnsafeParameters, nullptr},
    {"popitem", kUnsafeParameters, nullptr},
    {"setdefault", kUnsafeParameters, nullptr},
    {"update", kUnsafeParameters, nullptr},
    {"values", "", DictPart<DictView::Part::kValues>},
});

constexpr std::array kIntegerMethods = std::to_array<BuiltinRow>({
    {"as_integer_ratio", "*", nullptr},
    {"bit_count", "*", nullptr},
    {"bit_length", "", IntegerBitLength},
    {"conjugate", "", NumberConjugate},
    {"from_bytes", "*", nullptr},
    {"to_bytes", "*", nullptr},
});

constexpr std::array kFloatMethods = std::to_array<BuiltinRow>({
    {"as_integer_ratio", "*", nullptr},
    {"conjugate", "", NumberConjugate},
    {"fromhex", "*", nullptr},
    {"hex", "*", nullptr},
    {"is_integer", "", FloatIsInteger},
});

std::span<const BuiltinRow> MethodsOf(const Value& receiver) {
  switch (receiver.kind()) {
    case Value::Kind::kString: return kStringMethods;
    case Value::Kind::kList: return kListMethods;
    case Value::Kind::kTuple: return kTupleMethods;
    case Value::Kind::kDict: return kDictMethods;
    case Value::Kind::kBool:
    case Value::Kind::kInt: return kIntegerMethods;
    case Value::Kind::kFloat: return kFloatMethods;
    default: return {};
  }
}

}  // namespace

const BuiltinRow* FindMethod(const Value& receiver, std::string_view name) {
  const std::span<const BuiltinRow> methods = MethodsOf(receiver);
  const auto found = std::ranges::lower_bound(methods, name, {}, &BuiltinRow::name);
  return found != methods.end() && found->name == name ? &*found : nullptr;
}

}  // namespace kvd::jinja
