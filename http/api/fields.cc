#include "http/api/fields.h"

#include <cmath>
#include <utility>

#include "text/json.h"

namespace kvd::http {
namespace {

constexpr std::size_t kShownBytesMax = 60;

}  // namespace

std::string Shown(const Value& value) {
  const auto json = WriteJson(value);
  std::string text = json ? *json : "a value that JSON lacks";
  if (text.size() <= kShownBytesMax) return text;
  std::size_t end = kShownBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text + "...";
}

const Value& Fields::Find(std::string_view name) const {
  const Value& value = dict_.Find(name);
  return value.is_none() ? Value::Missing() : value;
}

std::unexpected<Error> Fields::Wrong(std::string_view name, std::string_view what,
                                     const Value& value) const {
  return Fail(Code::kInvalidArgument, PathOf(name), ": ", what, " is needed, not ", Shown(value));
}

Result<std::optional<bool>> Fields::OptionalBool(std::string_view name) const {
  const Value& value = Find(name);
  if (value.is_missing()) return std::nullopt;
  const Result<bool> flag = value.AsBool();
  if (!flag) return Wrong(name, "true or false", value);
  return *flag;
}

Result<bool> Fields::Bool(std::string_view name, bool fallback) const {
  KVD_TRY(const std::optional<bool> found, OptionalBool(name));
  return found.value_or(fallback);
}

Result<std::optional<std::int64_t>> Fields::OptionalInt(std::string_view name, std::int64_t least,
                                                        std::int64_t most) const {
  const Value& value = Find(name);
  if (value.is_missing()) return std::nullopt;
  const Result<std::int64_t> number = value.AsInt();
  if (!number) return Wrong(name, "a whole number", value);
  if (*number < least || *number > most) {
    return Fail(Code::kInvalidArgument, PathOf(name), ": ", *number, " is not within ", least,
                " to ", most);
  }
  return *number;
}

Result<std::int64_t> Fields::Int(std::string_view name, std::int64_t fallback, std::int64_t least,
                                 std::int64_t most) const {
  KVD_TRY(const std::optional<std::int64_t> found, OptionalInt(name, least, most));
  return found.value_or(fallback);
}

Result<double> Fields::Number(std::string_view name, double fallback) const {
  const Value& value = Find(name);
  if (value.is_missing()) return fallback;
  const Result<double> number = value.AsNumber();
  if (!number || !std::isfinite(*number)) return Wrong(name, "a number", value);
  return *number;
}

Result<std::string> Fields::String(std::string_view name, std::string fallback) const {
  const Value& value = Find(name);
  if (value.is_missing()) return fallback;
  const Result<std::string_view> text = value.AsString();
  if (!text) return Wrong(name, "a text", value);
  return std::string(*text);
}

Result<std::vector<std::string>> Fields::Strings(std::string_view name) const {
  const Value& value = Find(name);
  if (value.is_missing()) return std::vector<std::string>();
  if (value.is_string()) return std::vector{std::string(value.view())};
  if (!value.is_list()) return Wrong(name, "a text or a list of texts", value);
  std::vector<std::string> texts;
  for (const Value& item : value.items()) {
    if (!item.is_string()) return Wrong(name, "a text or a list of texts", value);
    texts.emplace_back(item.view());
  }
  return texts;
}

Result<Value> Fields::Object(std::string_view name) const {
  const Value& value = Find(name);
  if (!value.is_missing() && !value.is_dict()) return Wrong(name, "an object", value);
  return value;
}

Result<Value> Fields::List(std::string_view name) const {
  const Value& value = Find(name);
  if (!value.is_missing() && !value.is_list()) return Wrong(name, "a list", value);
  return value;
}

}  // namespace kvd::http
