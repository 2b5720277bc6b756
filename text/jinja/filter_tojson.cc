// The filter tojson: Python's json.dumps() without escapes of ASCII and HTML.
#include <algorithm>
#include <string>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_arguments.h"
#include "text/json.h"

namespace kvd::jinja {
namespace {

constexpr std::int64_t kJsonIndentMax = 100;

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

}  // namespace kvd::jinja
