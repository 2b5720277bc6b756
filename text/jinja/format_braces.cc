#include "text/jinja/format_braces.h"

#include <algorithm>
#include <utility>

#include "text/jinja/format_number.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

constexpr int kFormatNestingMax = 3;  // fields inside the specification of a field

// One field: {name.attribute[item]!conversion:specification}.
struct Field {
  std::string_view name;
  char conversion = 0;
  std::string_view specification;
};

class BraceFormatter {
 public:
  BraceFormatter(Interpreter* interpreter, const Arguments& arguments, bool is_safe)
      : interpreter_(*interpreter), arguments_(arguments), is_safe_(is_safe) {}

  Result<std::string> Format(std::string_view format, int nesting) {
    if (nesting > kFormatNestingMax) {
      return Fail(Code::kInvalidArgument, "max string recursion exceeded");
    }
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
        KVD_TRY(const std::size_t end, FieldEnd(format, i));
        KVD_TRY(const Field field, ParseField(format.substr(i + 1, end - i - 1)));
        KVD_TRY(const std::string formatted, FormatField(field, nesting));
        text += formatted;
        KVD_CHECK_OK(interpreter_.budget().CheckRoom(text.size()));
        i = end;
      }
    }
    return text;
  }

 private:
  // The offset of the brace that closes the field at `begin`.
  static Result<std::size_t> FieldEnd(std::string_view format, std::size_t begin) {
    int open = 0;
    bool is_item = false;
    for (std::size_t i = begin; i < format.size(); ++i) {
      if (format[i] == '[' && open == 1) is_item = true;
      if (format[i] == ']') is_item = false;
      if (is_item) continue;
      if (format[i] == '{') ++open;
      if (format[i] == '}' && --open == 0) return i;
    }
    if (begin + 1 == format.size()) {
      return Fail(Code::kInvalidArgument, "single '{' encountered in format string");
    }
    return Fail(Code::kInvalidArgument, "expected '}' before end of string");
  }

  static Result<Field> ParseField(std::string_view text) {
    Field field;
    bool is_item = false;
    std::size_t end = 0;
    for (; end < text.size(); ++end) {
      if (text[end] == '[') is_item = true;
      if (text[end] == ']') is_item = false;
      if (!is_item && (text[end] == '!' || text[end] == ':')) break;
      if (!is_item && text[end] == '{') {
        return Fail(Code::kInvalidArgument, "unexpected '{' in field name");
      }
    }
    field.name = text.substr(0, end);
    text.remove_prefix(end);
    if (text.starts_with('!')) {
      if (text.size() < 2) {
        return Fail(Code::kInvalidArgument, "unmatched '{' in format spec");
      }
      field.conversion = text[1];
      text.remove_prefix(2);
      if (!text.empty() && text[0] != ':') {
        return Fail(Code::kInvalidArgument, "expected ':' after conversion specifier");
      }
    }
    if (!text.empty()) field.specification = text.substr(1);
    return field;
  }

  // The value that the name of a field begins with. `is_whole`: the field has no other name.
  Result<Value> FirstValue(std::string_view name, bool is_whole) {
    if (name.empty() && is_whole) {
      if (is_numbered_) {
        return Fail(Code::kInvalidArgument,
                    "cannot switch from manual field specification to automatic field numbering");
      }
      is_automatic_ = true;
      return PositionalValue(next_++);
    }
    const bool is_number =
        !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) {
      if (is_automatic_) {
        return Fail(Code::kInvalidArgument,
                    "cannot switch from automatic field numbering to manual field specification");
      }
      is_numbered_ = true;
      return PositionalValue(static_cast<std::size_t>(ParseInteger(name).value_or(INT64_MAX)));
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

  // The value of "name.attribute[item]".
  Result<Value> FindValue(std::string_view name) {
    const std::size_t first = std::min(name.find_first_of(".["), name.size());
    KVD_TRY(Value value, FirstValue(name.substr(0, first), first == name.size()));
    name.remove_prefix(first);
    while (!name.empty()) {
      if (name[0] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", 1), name.size());
        if (end == 1) return Fail(Code::kInvalidArgument, "empty attribute in format string");
        KVD_TRY(value, interpreter_.GetAttribute(
                           value, Value::String(std::string(name.substr(1, end - 1)))));
        name.remove_prefix(end);
        continue;
      }
      const std::size_t end = name.find(']');
      if (name[0] != '[' || end == std::string_view::npos) {
        return Fail(Code::kInvalidArgument, "only '.' or '[' may follow ']' in format field");
      }
      const std::string_view item = name.substr(1, end - 1);
      if (item.empty()) return Fail(Code::kInvalidArgument, "empty attribute in format string");
      const bool is_number = std::ranges::all_of(item, [](char c) { return c >= '0' && c <= '9'; });
      const Value index = is_number ? Value::Int(ParseInteger(item).value_or(INT64_MAX))
                                    : Value::String(std::string(item));
      KVD_TRY(value, interpreter_.GetItem(value, index));
      name.remove_prefix(end + 1);
    }
    return value;
  }

  Result<std::string> FormatField(const Field& field, int nesting) {
    KVD_TRY(Value value, FindValue(field.name));
    if (field.conversion == 's') {
      KVD_TRY(value, StrValue(interpreter_, value));
    } else if (field.conversion == 'r' || field.conversion == 'a') {
      KVD_TRY(std::string text, Repr(interpreter_, value));
      if (field.conversion == 'a' && !Value::String(text).text().is_ascii()) {
        return Fail(Code::kUnsupported, "the conversion !a of other characters than ASCII");
      }
      value = Value::String(std::move(text));
    } else if (field.conversion != 0) {
      return Fail(Code::kInvalidArgument, "unknown conversion specifier ", field.conversion);
    }
    KVD_TRY(const std::string specification, Format(field.specification, nesting + 1));
    const bool needs_escape = is_safe_ && !value.is_safe_string();
    if (specification.empty()) {
      KVD_TRY(const std::string text, Str(interpreter_, value));
      return needs_escape ? EscapeHtml(text) : text;
    }
    KVD_TRY(const FormatSpec spec, ParseFormatSpec(specification));
    if (value.is_bool() && spec.type == 's') {
      return Fail(Code::kInvalidArgument, "unknown format code 's' for object of type 'bool'");
    }
    KVD_TRY(const std::string text, FormatValue(interpreter_, value, spec));
    return needs_escape ? EscapeHtml(text) : text;
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
  KVD_TRY(std::string text, formatter.Format(format.view(), 1));
  return interpreter.budget().String(std::move(text), format.is_safe_string());
}

}  // namespace kvd::jinja
