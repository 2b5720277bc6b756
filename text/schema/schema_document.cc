// A reference's fragment is a JSON pointer (RFC 6901) with %XX for characters that a URI lacks.
#include "text/schema/schema_document.h"

#include <algorithm>
#include <utility>

#include "text/number_text.h"
#include "text/schema/json_value.h"

namespace kvd::schema {
namespace {

Result<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const auto byte = ParseInteger(text.substr(i + 1, 2), 16);
    if (i + 2 >= text.size() || !byte || *byte < 0)
      return Fail(Code::kInvalidArgument, "\"%\" without two hexadecimal digits");
    decoded += static_cast<char>(*byte);
    i += 2;
  }
  return decoded;
}

// A step of a pointer without its escapes.
std::string Unescaped(std::string_view step) {
  std::string key;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool is_escape = step[i] == '~' && i + 1 < step.size();
    if (is_escape) ++i;
    key += !is_escape ? step[i] : step[i] == '1' ? '/' : '~';
  }
  return key;
}

// Missing: there is no such member.
const Value& Member(const Value& value, const std::string& key) {
  if (value.is_dict()) return value.dict().Find(key);
  if (!value.is_list() || key.empty() || key.size() > 9) return Value::Missing();
  if (key.find_first_not_of("0123456789") != std::string::npos) return Value::Missing();
  const std::size_t index = std::stoul(key);
  return index < value.items().size() ? value.items()[index] : Value::Missing();
}

}  // namespace

NodeId SchemaDocument::Add(const Value& schema, std::string pointer, bool has_other_base) {
  const auto [place, is_new] = ids_.try_emplace(&schema, NodeId{});
  if (!is_new) return place->second;
  place->second = static_cast<NodeId>(nodes_.size());
  nodes_.push_back({&schema, std::move(pointer), has_other_base});
  return place->second;
}

NodeId SchemaDocument::Part(NodeId parent, const Value& schema, std::string_view key) {
  if (const auto place = ids_.find(&schema); place != ids_.end()) return place->second;
  const bool has_id = schema.dict().Contains("$id");
  const Node& node = nodes_[Index(parent)];
  return Add(schema, PointerTo(node.pointer, key), node.has_other_base || has_id);
}

Result<NodeId> SchemaDocument::Resolve(NodeId node, std::string_view reference) {
  if (nodes_[Index(node)].has_other_base)
    return Fail(Code::kUnsupported, "a reference inside a part with an \"$id\" of its own");
  const std::size_t hash = reference.find('#');
  const std::string_view base = reference.substr(0, hash);
  const Value& id = root_.dict().Find("$id");
  const bool is_own = base.empty() || (id.is_string() && id.view() == base);
  if (!is_own) return Fail(Code::kUnsupported, "\"", reference, "\" refers to another document");
  const std::string_view encoded = hash == std::string_view::npos ? "" : reference.substr(hash + 1);
  if (encoded.empty()) return kRoot;
  if (!encoded.starts_with('/'))
    return Fail(Code::kUnsupported, "\"", reference, "\" refers to an anchor");
  KVD_TRY(const std::string pointer, PercentDecoded(encoded));
  const Value* target = &root_;
  bool has_other_base = false;
  for (std::size_t i = 0; i < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', i + 1), pointer.size());
    target = &Member(*target, Unescaped(std::string_view(pointer).substr(i + 1, end - i - 1)));
    if (target->is_missing())
      return Fail(Code::kInvalidArgument, "\"", reference, "\" refers to no part of the schema");
    if (target->dict().Contains("$id")) has_other_base = true;
    i = end;
  }
  return Add(*target, "#" + pointer, has_other_base);
}

}  // namespace kvd::schema
