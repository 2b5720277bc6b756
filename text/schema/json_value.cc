// Recursion is bounded by the nesting that CheckJson has accepted.
#include "text/schema/json_value.h"

#include <cmath>

#include "base/utf8.h"
#include "text/number_text.h"
#include "text/schema/string_rules.h"

namespace kvd::schema {
namespace {

void Append(const Value& value, std::string& text) {
  if (value.is_none()) {
    text += "null";
  } else if (value.is_bool()) {
    text += value.truth() ? "true" : "false";
  } else if (value.is_int()) {
    text += std::to_string(value.integer());
  } else if (value.is_float()) {
    text += FloatText(value.real());
  } else if (value.is_string()) {
    text += QuotedText(value.view());
  } else if (value.is_list()) {
    text += '[';
    for (const Value& item : value.items()) {
      if (&item != value.items().data()) text += ',';
      Append(item, text);
    }
    text += ']';
  } else {
    text += '{';
    for (const auto& member : value.dict().items()) {
      if (&member != value.dict().items().data()) text += ',';
      (text += QuotedText(member.first.view())) += ':';
      Append(member.second, text);
    }
    text += '}';
  }
}

std::unexpected<Error> Refuse(const std::string& pointer, std::string_view what) {
  return Fail(Code::kInvalidArgument, pointer, ": ", what);
}

Status CheckPart(const Value& value, const std::string& pointer) {
  if (value.is_none() || value.is_bool() || value.is_int()) return {};
  if (value.is_float()) {
    if (!std::isfinite(value.real())) return Refuse(pointer, "the number is not finite");
    return {};
  }
  if (value.is_string()) {
    if (!IsValidUtf8(value.view())) return Refuse(pointer, "the text is not valid UTF-8");
    return {};
  }
  if (value.is_list()) {
    for (std::size_t i = 0; i < value.items().size(); ++i)
      KVD_CHECK_OK(CheckPart(value.items()[i], PointerTo(pointer, i)));
    return {};
  }
  if (!value.is_dict()) return Refuse(pointer, "the value is of a kind that JSON lacks");
  for (const auto& [key, member] : value.dict().items()) {
    if (!key.is_string() || !IsValidUtf8(key.view()))
      return Refuse(pointer, "a key is not a text of valid UTF-8");
    KVD_CHECK_OK(CheckPart(member, PointerTo(pointer, key.view())));
  }
  return {};
}

}  // namespace

bool SameJson(const Value& a, const Value& b) {
  const bool are_numbers = (a.is_int() || a.is_float()) && (b.is_int() || b.is_float());
  if (are_numbers) return Equal(a, b);
  if (a.kind() != b.kind()) return false;
  if (a.is_list()) {
    if (a.items().size() != b.items().size()) return false;
    for (std::size_t i = 0; i < a.items().size(); ++i)
      if (!SameJson(a.items()[i], b.items()[i])) return false;
    return true;
  }
  if (a.is_dict()) {
    if (a.dict().size() != b.dict().size()) return false;
    for (const auto& [key, member] : a.dict().items()) {
      const Value& other = b.dict().Find(key);
      if (other.is_missing() || !SameJson(member, other)) return false;
    }
    return true;
  }
  return Equal(a, b);
}

std::string CompactJson(const Value& value) {
  std::string text;
  Append(value, text);
  return text;
}

Status CheckJson(const Value& value, std::uint32_t nesting_max, std::uint64_t node_count_max) {
  if (value.nesting() > nesting_max)
    return Fail(Code::kInvalidArgument, "#: ", value.nesting(), " levels, at most ", nesting_max);
  if (value.node_count() > node_count_max)
    return Fail(Code::kInvalidArgument, "#: ", value.node_count(), " values, at most ",
                node_count_max);
  return CheckPart(value, "#");
}

std::string PointerTo(const std::string& pointer, std::string_view key) {
  std::string extended = pointer + "/";
  for (const char byte : key) {
    if (byte == '~') {
      extended += "~0";
    } else if (byte == '/') {
      extended += "~1";
    } else {
      extended += byte;
    }
  }
  return extended;
}

std::string PointerTo(const std::string& pointer, std::size_t index) {
  return Concat(pointer, "/", index);
}

}  // namespace kvd::schema
