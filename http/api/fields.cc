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

const Value* Fields::Find(std::string_view name) const {
  const Value* const value = dict_.Find(name);
  return value == nullptr || value->is_none() ? nullptr : value;
}

std::unexpected<Error> Fields::Wrong(std::string_view name, std::string_view what,
                                     const Value& value) const {
  return Fail(Code::kInvalidArgument, PathOf(name), ": ", what, " is needed, not ", Shown(value));
}

Result<std::optional<bool>> Fields::OptionalBool(std::string_view name) const {
  const Value* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return Wrong(name, "true or false", *value);
  return value->truth();
}

Result<bool> Fields::Bool(std::string_view name, bool fallback) const {
  KVD_TRY(const std::optional<bool> found, OptionalBool(name));
  return found.value_or(fallback);
}

Result<std::optional<std::int64_t>> Fields::OptionalInt(std::string_view name, std::int64_t least,
                                                        std::int64_t most) const {
  const Value* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  std::int64_t number = 0;
  if (value->is_int()) {
    number = value->integer();
  } else if (value->is_float() && std::trunc(value->real()) == value->real() &&
             std::abs(value->real()) < 9e15) {
    number = static_cast<std::int64_t>(value->real());
  } else {
    return Wrong(name, "a whole number", *value);
  }
  if (number < least || number > most) {
    return Fail(Code::kInvalidArgument, PathOf(name), ": ", number, " is not within ", least,
                " to ", most);
  }
  return number;
}

Result<std::int64_t> Fields::Int(std::string_view name, std::int64_t fallback, std::int64_t least,
                                 std::int64_t most) const {
  KVD_TRY(const std::optional<std::int64_t> found, OptionalInt(name, least, most));
  return found.value_or(fallback);
}

Result<double> Fields::Number(std::string_view name, double fallback) const {
  const Value* const value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_bool() || !value->is_number() || !std::isfinite(value->number())) {
    return Wrong(name, "a number", *value);
  }
  return value->number();
}

Result<std::string> Fields::String(std::string_view name, std::string fallback) const {
  const Value* const value = Find(name);
  if (value == nullptr) return fallback;
  if (!value->is_string()) return Wrong(name, "a text", *value);
  return std::string(value->view());
}

Result<std::vector<std::string>> Fields::Strings(std::string_view name) const {
  const Value* const value = Find(name);
  if (value == nullptr) return std::vector<std::string>();
  if (value->is_string()) return std::vector{std::string(value->view())};
  if (!value->is_list()) return Wrong(name, "a text or a list of texts", *value);
  std::vector<std::string> texts;
  for (const Value& item : value->items()) {
    if (!item.is_string()) return Wrong(name, "a text or a list of texts", *value);
    texts.emplace_back(item.view());
  }
  return texts;
}

Result<const Value*> Fields::Object(std::string_view name) const {
  const Value* const value = Find(name);
  if (value != nullptr && !value->is_dict()) return Wrong(name, "an object", *value);
  return value;
}

Result<const Value*> Fields::List(std::string_view name) const {
  const Value* const value = Find(name);
  if (value != nullptr && !value->is_list()) return Wrong(name, "a list", *value);
  return value;
}

}  // namespace kvd::http
