// Arguments of builtins: texts, and the attribute that a filter takes of each item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/value.h"

namespace kvd::jinja {

// Arguments and results of builtins on texts. If the subject is markup, other texts are escaped
// before they are joined to it, and the result is markup.

// The argument as text, escaped if needed. Errors: kInvalidArgument: it is no string.
Result<std::string> TextArgument(const Invocation& call, std::size_t index);
// The argument as an int, or `absent`.
Result<std::int64_t> IntegerArgument(const Invocation& call, std::size_t index,
                                     std::int64_t absent);
// bool(argument), or `absent`.
Result<bool> BoolArgument(const Invocation& call, std::size_t index, bool absent);

// An argument that Python takes as an int and uses as a bool, or `absent`. Errors: it is no
// integer, or has more than 32 bits.
Result<bool> IntegerFlagArgument(const Invocation& call, std::size_t index, bool absent);

// A text made of the subject: markup if the subject is.
Result<Value> TextResult(const Invocation& call, std::string text);
Result<Value> ListResult(const Invocation& call, const std::vector<std::string_view>& parts);

// soft_str(): the subject as text, as the filters on texts take it.
Status MakeSubjectText(Invocation* call);

// The attribute that a filter takes of each item: "name", "a.b.0", or an index.
class AttributePath {
 public:
  // `attribute` is missing or None for the item itself.
  explicit AttributePath(const Value& attribute);
  // The paths of "a,b.c".
  static std::vector<AttributePath> Several(const Value& attribute);

  // The attribute of `item`; `fallback`, unless it is missing, replaces what is undefined.
  Result<Value> Of(Interpreter& interpreter, Value item, const Value& fallback = {}) const;

 private:
  AttributePath() = default;
  void Add(std::string_view dotted);

  std::vector<Value> parts_;
};

// Strings in lower case, other values as they are.
Value IgnoreCase(const Value& value);

}  // namespace kvd::jinja
