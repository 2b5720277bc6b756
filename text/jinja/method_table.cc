// The methods of strings, lists and dicts.
#include <algorithm>
#include <array>
#include <span>

#include "text/jinja/builtins.h"
#include "text/jinja/dict_view.h"
#include "text/jinja/interpreter.h"
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

}  // namespace kvd::jinja
