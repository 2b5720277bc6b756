#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/utf8.h"
#include "text/json.h"
#include "text/number_text.h"

namespace kvd {
namespace {

std::string JsonFloat(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return FloatText(number);
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  std::string Take() { return std::move(text_); }

  Status Write(const Value& value) {
    if (text_.size() > style_.bytes_max) return TooLong();
    switch (value.kind()) {
      case Value::Kind::kNone: text_ += "null"; return {};
      case Value::Kind::kBool: text_ += value.truth() ? "true" : "false"; return {};
      case Value::Kind::kInt: text_ += std::to_string(value.integer()); return {};
      case Value::Kind::kFloat: text_ += JsonFloat(value.real()); return {};
      case Value::Kind::kString: return WriteString(value.view());
      case Value::Kind::kList:
      case Value::Kind::kTuple: return WriteArray(value.items());
      case Value::Kind::kDict: return WriteObject(value.dict());
      case Value::Kind::kUndefined: return NotJson("Undefined");
      case Value::Kind::kObject: return NotJson(value.object().type_name());
    }
    return {};
  }

 private:
  static Status NotJson(std::string_view type) {
    return Fail(Code::kInvalidArgument, "Object of type ", type, " is not JSON serializable");
  }
  Status TooLong() const {
    return Fail(Code::kTooLarge, "JSON of more than ", style_.bytes_max, " bytes");
  }

  // Begins the line of the next item of a container at the present level.
  void BeginLine() {
    if (!style_.indent) return;
    text_ += '\n';
    for (std::uint32_t i = 0; i < level_; ++i) text_ += *style_.indent;
  }
  void Separate(bool is_first) {
    if (!is_first) text_ += style_.item_separator;
    BeginLine();
  }

  Status WriteArray(const std::vector<Value>& items) {
    if (items.empty()) {
      text_ += "[]";
      return {};
    }
    text_ += '[';
    ++level_;
    bool is_first = true;
    for (const Value& item : items) {
      Separate(std::exchange(is_first, false));
      KVD_CHECK_OK(Write(item));
    }
    --level_;
    BeginLine();
    text_ += ']';
    return {};
  }

  Status WriteObject(const Dict& dict) {
    if (dict.empty()) {
      text_ += "{}";
      return {};
    }
    std::vector<std::size_t> order(dict.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (style_.sort_keys) KVD_CHECK_OK(SortKeys(dict, &order));
    text_ += '{';
    ++level_;
    bool is_first = true;
    for (const std::size_t index : order) {
      const auto& [key, value] = dict.items()[index];
      Separate(std::exchange(is_first, false));
      KVD_CHECK_OK(WriteKey(key));
      text_ += style_.key_separator;
      KVD_CHECK_OK(Write(value));
    }
    --level_;
    BeginLine();
    text_ += '}';
    return {};
  }

  static Status SortKeys(const Dict& dict, std::vector<std::size_t>* order) {
    const auto key_at = [&dict](std::size_t index) -> const Value& {
      return dict.items()[index].first;
    };
    const auto all = [&](auto is_kind) {
      return std::ranges::all_of(*order, [&](std::size_t index) { return is_kind(key_at(index)); });
    };
    if (all([](const Value& key) { return key.is_string(); })) {
      std::ranges::stable_sort(*order, {}, [&](std::size_t index) { return key_at(index).view(); });
    } else if (all([](const Value& key) { return key.is_number(); })) {
      std::ranges::stable_sort(*order, {},
                               [&](std::size_t index) { return key_at(index).number(); });
    } else if (dict.size() > 1) {
      return Fail(Code::kInvalidArgument, "keys of different types cannot be sorted");
    }
    return {};
  }

  Status WriteKey(const Value& key) {
    switch (key.kind()) {
      case Value::Kind::kString: return WriteString(key.view());
      case Value::Kind::kNone: text_ += "\"null\""; return {};
      case Value::Kind::kBool: text_ += key.truth() ? "\"true\"" : "\"false\""; return {};
      case Value::Kind::kInt:
      case Value::Kind::kFloat:
        text_ += '"';
        KVD_CHECK_OK(Write(key));
        text_ += '"';
        return {};
      default: return Fail(Code::kInvalidArgument, "keys must be str, int, float, bool or None");
    }
  }

  Status WriteString(std::string_view bytes) {
    text_ += '"';
    while (!bytes.empty()) {
      const std::size_t plain = PlainBytes(bytes);
      text_ += bytes.substr(0, plain);
      bytes.remove_prefix(plain);
      if (bytes.empty()) break;
      const std::size_t taken = std::max<std::size_t>(WellFormedBytes(bytes), 1);
      Escape(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
    }
    text_ += '"';
    return text_.size() > style_.bytes_max ? TooLong() : Status();
  }

  // Returns the number of bytes at the start that are written as they are.
  std::size_t PlainBytes(std::string_view bytes) const {
    const auto is_special = [this](char byte) {
      const auto code = static_cast<unsigned char>(byte);
      return code < 0x20 || byte == '"' || byte == '\\' ||
             (style_.escape_non_ascii && code >= 0x7f);
    };
    return static_cast<std::size_t>(std::ranges::find_if(bytes, is_special) - bytes.begin());
  }

  void Escape(std::string_view character) {
    switch (character[0]) {
      case '"': text_ += "\\\""; return;
      case '\\': text_ += "\\\\"; return;
      case '\n': text_ += "\\n"; return;
      case '\r': text_ += "\\r"; return;
      case '\t': text_ += "\\t"; return;
      case '\f': text_ += "\\f"; return;
      case '\b': text_ += "\\b"; return;
      case '\x7f': text_ += '\x7f'; return;
      default: break;
    }
    const std::uint32_t code_point = CodePointOf(character);
    if (code_point < 0x10000) return EscapeUnit(code_point);
    EscapeUnit(0xd800 + ((code_point - 0x10000) >> 10));
    EscapeUnit(0xdc00 + ((code_point - 0x10000) & 0x3ff));
  }
  void EscapeUnit(std::uint32_t unit) {
    std::array<char, 16> digits;
    std::snprintf(digits.data(), digits.size(), "\\u%04x", static_cast<unsigned>(unit));
    text_ += digits.data();
  }

  const JsonStyle& style_;
  std::string text_;
  std::uint32_t level_ = 0;
};

}  // namespace

Result<std::string> WriteJson(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  KVD_CHECK_OK(writer.Write(value));
  return writer.Take();
}

}  // namespace kvd
