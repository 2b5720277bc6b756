#include "text/jinja/python_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "text/characters.h"
#include "text/number_text.h"

namespace kvd::jinja {
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

}  // namespace kvd::jinja
