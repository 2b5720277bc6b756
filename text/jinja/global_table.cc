// The global functions: Jinja2's own, and raise_exception() and strftime_now() of chat templates.
#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/namespace_object.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/range_object.h"

namespace kvd::jinja {
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
