#include "text/jinja/format_braces.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

// Replaces the fields of one format from left to right.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter* interpreter, const Arguments& arguments, bool is_safe)
      : interpreter_(*interpreter), arguments_(arguments), is_safe_(is_safe) {}

  Result<std::string> Format(std::string_view format) {
    std::string text;
    for (std::size_t i = 0; i < format.size(); ++i) {
      const char c = format[i];
      const bool is_doubled = i + 1 < format.size() && format[i + 1] == c;
      if (c != '{' && c != '}') {
        text += c;
      } else if (is_doubled) {
        text += c;
        ++i;
      } else if (c == '}') {
        return Fail(Code::kInvalidArgument, "single '}' encountered in format string");
      } else {
        const std::size_t end = format.find('}', i);
        if (end == std::string_view::npos) {
          return Fail(Code::kInvalidArgument, "expected '}' before end of string");
        }
        KVD_CHECK_OK(AppendField(format.substr(i + 1, end - i - 1), &text));
        i = end;
      }
    }
    return text;
  }

 private:
  Status AppendField(std::string_view name, std::string* text) {
    if (name.ends_with(':')) name.remove_suffix(1);  // an empty format of its own
    if (name.find_first_of(".[!:{") != std::string_view::npos) {
      return Fail(Code::kUnsupported, "format: the field '{", name,
                  "}' is more than a name or a number");
    }
    KVD_TRY(const Value value, FindValue(name));
    KVD_TRY(const std::string part, Str(interpreter_, value));
    text->append(is_safe_ && !value.is_safe_string() ? EscapeHtml(part) : part);
    return interpreter_.budget().CheckRoom(text->size());
  }

  Result<Value> FindValue(std::string_view name) {
    const bool is_number = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) {
      const bool is_automatic = name.empty();
      if (is_automatic ? is_numbered_ : is_automatic_) {
        return Fail(Code::kInvalidArgument,
                    "a format has either fields with numbers or fields without");
      }
      (is_automatic ? is_automatic_ : is_numbered_) = true;
      return PositionalValue(
          is_automatic ? next_++
                       : static_cast<std::size_t>(ParseInteger(name).value_or(INT64_MAX)));
    }
    const auto found = std::ranges::find_if(
        arguments_.named, [name](const auto& argument) { return argument.first.view() == name; });
    if (found == arguments_.named.end()) {
      return Fail(Code::kInvalidArgument, "KeyError: ", QuoteString(name));
    }
    return found->second;
  }

  Result<Value> PositionalValue(std::size_t index) const {
    if (index < arguments_.positional.size()) return arguments_.positional[index];
    return Fail(Code::kInvalidArgument, "replacement index ", index,
                " out of range for positional args tuple");
  }

  Interpreter& interpreter_;
  const Arguments& arguments_;
  const bool is_safe_;
  std::size_t next_ = 0;  // positional value of the next field without name
  bool is_automatic_ = false;
  bool is_numbered_ = false;
};

}  // namespace

Result<Value> FormatBraces(Interpreter& interpreter, const Value& format,
                           const Arguments& arguments) {
  BraceFormatter formatter(&interpreter, arguments, format.is_safe_string());
  KVD_TRY(std::string text, formatter.Format(format.view()));
  return interpreter.budget().String(std::move(text), format.is_safe_string());
}

}  // namespace kvd::jinja
