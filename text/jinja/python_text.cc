#include "text/jinja/python_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "text/characters.h"
#include "text/jinja/operators.h"
#include "text/number_text.h"

namespace kvd::jinja {

// ---- python text

namespace {

Status AppendItems(Interpreter& interpreter, const std::vector<Value>& items, std::string* text) {
  bool is_first = true;
  for (const Value& item : items) {
    if (!std::exchange(is_first, false)) text->append(", ");
    KVD_CHECK_OK(AppendRepr(interpreter, item, text));
  }
  return {};
}

void AppendEscaped(std::uint32_t code_point, std::string* text) {
  const char* const format = code_point < 0x100     ? "\\x%02x"
                             : code_point < 0x10000 ? "\\u%04x"
                                                    : "\\U%08x";
  std::array<char, 16> escape;
  std::snprintf(escape.data(), escape.size(), format, static_cast<unsigned>(code_point));
  text->append(escape.data());
}

}  // namespace

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined: return "Undefined";
    case Value::Kind::kNone: return "NoneType";
    case Value::Kind::kBool: return "bool";
    case Value::Kind::kInt: return "int";
    case Value::Kind::kFloat: return "float";
    case Value::Kind::kString: return value.text().is_safe ? "Markup" : "str";
    case Value::Kind::kList: return "list";
    case Value::Kind::kTuple: return "tuple";
    case Value::Kind::kDict: return "dict";
    case Value::Kind::kObject: return value.object().type_name();
  }
  return "object";
}

std::string DescribeType(const Value& value) {
  if (value.is_none()) return "None";
  return std::string(TypeName(value)) + " object";
}

std::string QuoteString(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string quoted(1, quote);
  while (!text.empty()) {
    const std::string_view character = text.substr(0, CharacterBytes(text));
    text.remove_prefix(character.size());
    const std::uint32_t code_point = CharacterOf(character);
    if (character[0] == quote || character[0] == '\\') {
      quoted.append("\\").append(character);
    } else if (code_point == '\n') {
      quoted += "\\n";
    } else if (code_point == '\r') {
      quoted += "\\r";
    } else if (code_point == '\t') {
      quoted += "\\t";
    } else if (IsPrintable(code_point)) {
      quoted += character;
    } else {
      AppendEscaped(code_point, &quoted);
    }
  }
  return quoted + quote;
}

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '\'': escaped += "&#39;"; break;
      case '"': escaped += "&#34;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

Status AppendStr(Interpreter& interpreter, const Value& value, std::string* text) {
  if (value.is_undefined()) return {};
  if (value.is_string()) {
    text->append(value.view());
    return {};
  }
  return AppendRepr(interpreter, value, text);
}

Status AppendRepr(Interpreter& interpreter, const Dict& dict, std::string* text) {
  text->append("{");
  bool is_first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!std::exchange(is_first, false)) text->append(", ");
    KVD_CHECK_OK(AppendRepr(interpreter, key, text));
    text->append(": ");
    KVD_CHECK_OK(AppendRepr(interpreter, value, text));
  }
  text->append("}");
  return {};
}

Status AppendRepr(Interpreter& interpreter, const Value& value, std::string* text) {
  KVD_CHECK_OK(interpreter.budget().Step());
  KVD_CHECK_OK(interpreter.budget().CheckOutput(text->size()));
  const Budget::Level level(&interpreter.budget());
  KVD_CHECK_OK(level.Check());
  switch (value.kind()) {
    case Value::Kind::kUndefined: text->append("Undefined"); return {};
    case Value::Kind::kNone: text->append("None"); return {};
    case Value::Kind::kBool: text->append(value.truth() ? "True" : "False"); return {};
    case Value::Kind::kInt: text->append(std::to_string(value.integer())); return {};
    case Value::Kind::kFloat: text->append(FloatText(value.real())); return {};
    case Value::Kind::kString: {
      const std::string quoted = QuoteString(value.view());
      text->append(value.text().is_safe ? "Markup(" + quoted + ")" : quoted);
      return {};
    }
    case Value::Kind::kList:
      text->append("[");
      KVD_CHECK_OK(AppendItems(interpreter, value.items(), text));
      text->append("]");
      return {};
    case Value::Kind::kTuple:
      text->append("(");
      KVD_CHECK_OK(AppendItems(interpreter, value.items(), text));
      text->append(value.items().size() == 1 ? ",)" : ")");
      return {};
    case Value::Kind::kDict: return AppendRepr(interpreter, value.dict(), text);
    case Value::Kind::kObject: return ScriptOf(value).Represent(interpreter, text);
  }
  return {};
}

Result<std::string> Str(Interpreter& interpreter, const Value& value) {
  std::string text;
  KVD_CHECK_OK(AppendStr(interpreter, value, &text));
  return text;
}

Result<std::string> Repr(Interpreter& interpreter, const Value& value) {
  std::string text;
  KVD_CHECK_OK(AppendRepr(interpreter, value, &text));
  return text;
}

Result<Value> StrValue(Interpreter& interpreter, const Value& value) {
  if (value.is_string()) return value;
  KVD_TRY(std::string text, Str(interpreter, value));
  return interpreter.budget().String(std::move(text));
}

// ---- format braces

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
