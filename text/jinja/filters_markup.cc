#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include "base/utf8.h"
#include "text/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_arguments.h"
#include "text/json.h"
#include "text/number_text.h"

namespace kvd::jinja {
namespace {

constexpr std::int64_t kJsonIndentMax = 100;
constexpr std::size_t kPprintWidth = 80;

struct Entity {
  std::string_view name;
  std::uint32_t code_point;
};
// The names of HTML that need no semicolon, even if other letters follow; the longest ones first
// (HTML Standard, "Named character references").
constexpr auto kEntities = std::to_array<Entity>(
    {{"Aacute", 0xc1}, {"Agrave", 0xc0}, {"Atilde", 0xc3}, {"Ccedil", 0xc7}, {"Eacute", 0xc9},
     {"Egrave", 0xc8}, {"Iacute", 0xcd}, {"Igrave", 0xcc}, {"Ntilde", 0xd1}, {"Oacute", 0xd3},
     {"Ograve", 0xd2}, {"Oslash", 0xd8}, {"Otilde", 0xd5}, {"Uacute", 0xda}, {"Ugrave", 0xd9},
     {"Yacute", 0xdd}, {"aacute", 0xe1}, {"agrave", 0xe0}, {"atilde", 0xe3}, {"brvbar", 0xa6},
     {"ccedil", 0xe7}, {"curren", 0xa4}, {"divide", 0xf7}, {"eacute", 0xe9}, {"egrave", 0xe8},
     {"frac12", 0xbd}, {"frac14", 0xbc}, {"frac34", 0xbe}, {"iacute", 0xed}, {"igrave", 0xec},
     {"iquest", 0xbf}, {"middot", 0xb7}, {"ntilde", 0xf1}, {"oacute", 0xf3}, {"ograve", 0xf2},
     {"oslash", 0xf8}, {"otilde", 0xf5}, {"plusmn", 0xb1}, {"uacute", 0xfa}, {"ugrave", 0xf9},
     {"yacute", 0xfd}, {"AElig", 0xc6},  {"Acirc", 0xc2},  {"Aring", 0xc5},  {"Ecirc", 0xca},
     {"Icirc", 0xce},  {"Ocirc", 0xd4},  {"THORN", 0xde},  {"Ucirc", 0xdb},  {"acirc", 0xe2},
     {"acute", 0xb4},  {"aelig", 0xe6},  {"aring", 0xe5},  {"cedil", 0xb8},  {"ecirc", 0xea},
     {"icirc", 0xee},  {"iexcl", 0xa1},  {"laquo", 0xab},  {"micro", 0xb5},  {"ocirc", 0xf4},
     {"pound", 0xa3},  {"raquo", 0xbb},  {"szlig", 0xdf},  {"thorn", 0xfe},  {"times", 0xd7},
     {"ucirc", 0xfb},  {"Auml", 0xc4},   {"COPY", 0xa9},   {"Euml", 0xcb},   {"Iuml", 0xcf},
     {"Ouml", 0xd6},   {"QUOT", 0x22},   {"Uuml", 0xdc},   {"auml", 0xe4},   {"cent", 0xa2},
     {"copy", 0xa9},   {"euml", 0xeb},   {"iuml", 0xef},   {"macr", 0xaf},   {"nbsp", 0xa0},
     {"ordf", 0xaa},   {"ordm", 0xba},   {"ouml", 0xf6},   {"para", 0xb6},   {"quot", 0x22},
     {"sect", 0xa7},   {"sup1", 0xb9},   {"sup2", 0xb2},   {"sup3", 0xb3},   {"uuml", 0xfc},
     {"yuml", 0xff},   {"AMP", 0x26},    {"ETH", 0xd0},    {"REG", 0xae},    {"amp", 0x26},
     {"deg", 0xb0},    {"eth", 0xf0},    {"not", 0xac},    {"reg", 0xae},    {"shy", 0xad},
     {"uml", 0xa8},    {"yen", 0xa5},    {"GT", 0x3e},     {"LT", 0x3c},     {"gt", 0x3e},
     {"lt", 0x3c}});

// Appends the character of the entity at the start of `text`, which is behind "&", and returns the
// entity's length; 0 if there is none. Errors: kUnsupported: a name that is not known.
Result<std::size_t> AppendEntity(std::string_view text, std::string* result) {
  if (text.starts_with('#')) {
    const bool is_hex = text.size() > 1 && (text[1] | 0x20) == 'x';
    const std::size_t begin = is_hex ? 2 : 1;
    std::size_t end = begin;
    const std::string_view digits = is_hex ? "0123456789abcdefABCDEF" : "0123456789";
    while (end < text.size() && digits.find(text[end]) != std::string_view::npos) ++end;
    if (end == begin) return std::size_t{0};
    const auto code = ParseInteger(text.substr(begin, end - begin), is_hex ? 16 : 10);
    const bool is_plain = code && *code >= 0x20 && *code <= 0x10ffff &&
                          (*code < 0x7f || *code > 0x9f) && (*code < 0xd800 || *code > 0xdfff);
    if (!is_plain) return Fail(Code::kUnsupported, "striptags: an entity of a control character");
    AppendUtf8(static_cast<std::uint32_t>(*code), *result);
    return end + (end < text.size() && text[end] == ';' ? 1u : 0u);
  }
  if (text.starts_with("apos;")) {
    *result += '\'';
    return std::size_t{5};
  }
  // The whole name counts before its beginning: "notin;" is not "not".
  const std::size_t end = text.find_first_of("\t\n\f <&#;");
  const bool has_end = end != std::string_view::npos && end > 1 && end <= 32 && text[end] == ';';
  const std::string_view name = text.substr(0, has_end ? end : 0);
  if (has_end && std::ranges::find(kEntities, name, &Entity::name) == kEntities.end()) {
    return Fail(Code::kUnsupported, "striptags: an entity with a name");
  }
  for (const Entity& entity : kEntities) {
    if (!text.starts_with(entity.name)) continue;
    AppendUtf8(entity.code_point, *result);
    return entity.name.size() + (text.substr(entity.name.size()).starts_with(';') ? 1u : 0u);
  }
  return std::size_t{0};
}

// Removes what is between `begin` and `end`, both included; an unfinished part stays.
std::string WithoutParts(std::string_view text, std::string_view begin, std::string_view end) {
  std::string rest;
  while (true) {
    const std::size_t from = text.find(begin);
    const std::size_t to = from == std::string_view::npos ? from : text.find(end, from);
    if (to == std::string_view::npos) return rest.append(text);
    rest.append(text.substr(0, from));
    text.remove_prefix(to + end.size());
  }
}

std::string Quoted(std::string_view text, bool is_query) {
  std::string quoted;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                          std::string_view("_.-~").find(c) != std::string_view::npos ||
                          (c == '/' && !is_query);
    if (is_plain) {
      quoted += c;
    } else if (c == ' ' && is_query) {
      quoted += '+';
    } else {
      std::array<char, 4> hex;
      std::snprintf(hex.data(), hex.size(), "%%%02X",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      quoted += hex.data();
    }
  }
  return quoted;
}

Result<std::string> QueryOf(Interpreter& interpreter, const Value& pairs) {
  KVD_TRY(const std::vector<Value> items, ItemsOf(interpreter, pairs));
  std::string query;
  for (const Value& pair : items) {
    KVD_TRY(const std::vector<Value> parts, ItemsOf(interpreter, pair));
    if (parts.size() != 2) return Fail(Code::kInvalidArgument, "urlencode: an item is no pair");
    KVD_TRY(const std::string key, Str(interpreter, parts[0]));
    KVD_TRY(const std::string value, Str(interpreter, parts[1]));
    if (!query.empty()) query += '&';
    query += Quoted(key, true) + "=" + Quoted(value, true);
    KVD_CHECK_OK(interpreter.budget().CheckRoom(query.size()));
  }
  return query;
}

// The value with the keys of all dicts sorted, as pprint shows them.
Result<Value> WithSortedKeys(Interpreter& interpreter, const Value& value) {
  KVD_CHECK_OK(interpreter.budget().Step());
  if (value.is_sequence()) {
    std::vector<Value> items;
    for (const Value& item : value.items()) {
      KVD_TRY(Value sorted, WithSortedKeys(interpreter, item));
      items.push_back(std::move(sorted));
    }
    return value.is_list() ? interpreter.budget().List(std::move(items))
                           : interpreter.budget().Tuple(std::move(items));
  }
  if (!value.is_dict()) return value;
  std::vector<std::size_t> order(value.dict().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto& items = value.dict().items();
  // pprint orders keys that Python cannot compare by the names of their types.
  Status status;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (!status) return false;
    const Value &left = items[a].first, &right = items[b].first;
    const bool is_comparable =
        (left.is_number() && right.is_number()) || (left.kind() == right.kind() && !left.is_none());
    if (!is_comparable) return TypeName(left) < TypeName(right);
    const Result<bool> is_less = IsLess(interpreter, left, right);
    if (!is_less) status = std::unexpected(is_less.error());
    return is_less.value_or(false);
  });
  KVD_CHECK_OK(status);
  Dict sorted;
  for (const std::size_t index : order) {
    KVD_TRY(Value item, WithSortedKeys(interpreter, items[index].second));
    sorted.Set(items[index].first, std::move(item));
  }
  return interpreter.budget().Of(std::move(sorted));
}

Status SetIndent(const Invocation& call, const Value& indent, JsonStyle* style) {
  if (indent.is_missing() || indent.is_none()) return {};
  style->item_separator = ",";
  if (indent.is_string()) {
    style->indent = std::string(indent.view());
    return {};
  }
  KVD_TRY(const std::int64_t width, IntegerOf(indent, call.name));
  if (width > kJsonIndentMax) {
    return Fail(Code::kUnsupported, "tojson: an indent of more than ", kJsonIndentMax);
  }
  style->indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  return {};
}

Status SetSeparators(const Value& separators, JsonStyle* style) {
  if (separators.is_missing() || separators.is_none()) return {};
  const bool is_pair = separators.is_sequence() && separators.items().size() == 2 &&
                       separators.items()[0].is_string() && separators.items()[1].is_string();
  if (!is_pair) return Fail(Code::kInvalidArgument, "tojson: separators must be two strings");
  style->item_separator = separators.items()[0].view();
  style->key_separator = separators.items()[1].view();
  return {};
}

}  // namespace

Result<Value> FilterEscape(Invocation& call) {
  if (call.subject.is_safe_string()) return call.subject;
  KVD_TRY(const std::string text, Str(call.interpreter, call.subject));
  return call.interpreter.budget().String(EscapeHtml(text), true);
}

Result<Value> FilterForceEscape(Invocation& call) {
  KVD_TRY(const std::string text, Str(call.interpreter, call.subject));
  return call.interpreter.budget().String(EscapeHtml(text), true);
}

Result<Value> FilterSafe(Invocation& call) {
  KVD_TRY(std::string text, Str(call.interpreter, call.subject));
  return call.interpreter.budget().String(std::move(text), true);
}

Result<Value> FilterPprint(Invocation& call) {
  KVD_TRY(const Value sorted, WithSortedKeys(call.interpreter, call.subject));
  KVD_TRY(std::string text, Repr(call.interpreter, sorted));
  if (CodePointsOf(text).size() > kPprintWidth &&
      sorted.nesting() + (sorted.is_string() ? 1 : 0) > 0) {
    return Fail(Code::kUnsupported, "pprint: the value is longer than ", kPprintWidth, " columns");
  }
  return call.interpreter.budget().String(std::move(text));
}

Result<Value> FilterStripTags(Invocation& call) {
  KVD_TRY(std::string text, Str(call.interpreter, call.subject));
  KVD_CHECK_OK(call.interpreter.budget().Step(1 + text.size() / 64));
  text = WithoutParts(WithoutParts(text, "<!--", "-->"), "<", ">");
  std::string joined;  // with one space for each run of white space
  std::string_view rest = Trim(text);
  while (!rest.empty()) {
    const std::size_t bytes = CharacterBytes(rest);
    if (IsIn(CharacterClass::kSpace, CharacterOf(rest.substr(0, bytes)))) {
      joined += ' ';
      rest = TrimLeft(rest);
    } else {
      joined += rest.substr(0, bytes);
      rest.remove_prefix(bytes);
    }
  }
  std::string result;
  rest = joined;
  while (!rest.empty()) {
    const char c = rest[0];
    rest.remove_prefix(1);
    std::size_t taken = 0;
    if (c == '&') {
      KVD_TRY(taken, AppendEntity(rest, &result));
    }
    if (taken == 0) result += c;
    rest.remove_prefix(taken);
  }
  return call.interpreter.budget().String(std::move(result));
}

Result<Value> FilterToJson(Invocation& call) {
  JsonStyle style;
  KVD_TRY(style.escape_non_ascii, BoolArgument(call, 0, false));
  KVD_CHECK_OK(SetIndent(call, call[1], &style));
  KVD_CHECK_OK(SetSeparators(call[2], &style));
  KVD_TRY(style.sort_keys, BoolArgument(call, 3, false));
  style.bytes_max = call.interpreter.budget().options().output_bytes_max;
  KVD_CHECK_OK(call.interpreter.budget().Step(call.subject.node_count()));
  KVD_TRY(std::string text, WriteJson(call.subject, style));
  return call.interpreter.budget().String(std::move(text));
}

Result<Value> FilterUrlEncode(Invocation& call) {
  const Value& value = call.subject;
  std::string encoded;
  if (value.is_dict()) {
    std::vector<Value> pairs;
    for (const auto& [key, item] : value.dict().items()) pairs.push_back(Value::Tuple({key, item}));
    KVD_TRY(encoded, QueryOf(call.interpreter, Value::List(std::move(pairs))));
  } else if (value.is_string() || !IsIterable(value)) {
    KVD_TRY(const std::string text, Str(call.interpreter, value));
    encoded = Quoted(text, false);
  } else {
    KVD_TRY(encoded, QueryOf(call.interpreter, value));
  }
  return call.interpreter.budget().String(std::move(encoded));
}

Result<Value> FilterXmlAttr(Invocation& call) {
  KVD_TRY(const bool has_space, BoolArgument(call, 0, true));
  if (!call.subject.is_dict()) {
    if (call.subject.is_undefined()) return FailUndefined(call.subject);
    return Fail(Code::kInvalidArgument, "'", TypeName(call.subject),
                "' object has no attribute 'items'");
  }
  std::string text;
  for (const auto& [key, value] : call.subject.dict().items()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) {
      return Fail(Code::kInvalidArgument, "expected string, got '", TypeName(key), "'");
    }
    if (key.view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return Fail(Code::kInvalidArgument,
                  "invalid character in attribute name: ", QuoteString(key.view()));
    }
    KVD_TRY(const std::string content, Str(call.interpreter, value));
    if (!text.empty()) text += ' ';
    text += key.is_safe_string() ? std::string(key.view()) : EscapeHtml(key.view());
    text += "=\"" + (value.is_safe_string() ? content : EscapeHtml(content)) + "\"";
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(text.size()));
  }
  if (has_space && !text.empty()) text.insert(0, 1, ' ');
  return call.interpreter.budget().String(std::move(text));
}

}  // namespace kvd::jinja
