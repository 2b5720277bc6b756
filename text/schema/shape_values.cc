// Whether a value satisfies a schema: enum and const are filtered by the other keywords, and by the
// other branches of a oneOf. The recursion ends because the value's nesting is bounded.
#include <algorithm>

#include "base/utf8.h"
#include "text/schema/automaton.h"
#include "text/schema/json_value.h"
#include "text/schema/shape_reader.h"

namespace kvd::schema {
namespace {

bool IsIntOrFloat(const Value& value) { return value.is_int() || value.is_float(); }

std::uint64_t CharacterCount(std::string_view text) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

}  // namespace

Result<bool> ShapeReader::Accepts(const NodeSet& nodes, const Value& value, bool with_formats) {
  KVD_TRY(const ShapePointer shape, Of(nodes));
  for (const Alternative& one : *shape) {
    KVD_TRY(bool is_in, AcceptsAlternative(one, value, with_formats));
    for (std::size_t i = 0; is_in && i < one.exclusions.size(); ++i) {
      if (++depth_ > limits_.depth_max)
        return Fail(Code::kUnsupported, one.exclusions[i].pointer, ": more than ",
                    limits_.depth_max, " conditions inside each other");
      const Result<bool> is_excluded = Accepts({one.exclusions[i].node}, value, false);
      --depth_;
      if (!is_excluded) return is_excluded;
      is_in = !*is_excluded;
    }
    if (is_in) return true;
  }
  return false;
}

Result<bool> ShapeReader::AcceptsAlternative(const Alternative& one, const Value& value,
                                             bool with_formats) {
  KVD_CHECK_OK(Spend(one.pointer));
  switch (one.kind) {
    case ValueKind::kNull: return value.is_none();
    case ValueKind::kBoolean: return value.is_bool();
    case ValueKind::kNumber: return IsIntOrFloat(value) && Contains(one.number, value);
    case ValueKind::kString:
      if (!value.is_string()) return false;
      return AcceptsString(one.string, value.view(), with_formats);
    case ValueKind::kArray:
      if (!value.is_list()) return false;
      return AcceptsArray(one.array, value, with_formats);
    case ValueKind::kObject:
      if (!value.is_dict()) return false;
      return AcceptsObject(one.object, value.dict(), with_formats);
    case ValueKind::kConstants: break;
  }
  return std::ranges::any_of(one.constants,
                             [&](const Value& constant) { return SameJson(constant, value); });
}

Result<bool> ShapeReader::AcceptsString(const StringSet& set, std::string_view text,
                                        bool with_formats) {
  const std::uint64_t length = CharacterCount(text);
  if (length < set.length_min || (set.length_max && length > *set.length_max)) return false;
  for (const SharedRegex& pattern : set.patterns) {
    KVD_TRY(const bool matches, Matches(*pattern, text));
    if (!matches) return false;
  }
  for (std::size_t i = 0; with_formats && i < set.formats.size(); ++i) {
    KVD_TRY(const bool matches, Matches(*set.formats[i], text));
    if (!matches) return false;
  }
  return true;
}

Result<bool> ShapeReader::AcceptsArray(const ArraySet& set, const Value& value, bool with_formats) {
  const std::vector<Value>& items = value.items();
  if (items.size() < set.count_min || (set.count_max && items.size() > *set.count_max))
    return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    KVD_TRY(const bool is_in, Accepts(ItemNodes(set, i), items[i], with_formats));
    if (!is_in) return false;
    if (!set.is_unique) continue;
    const auto end = items.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(items.begin(), end, [&](const Value& one) { return SameJson(one, items[i]); }))
      return false;
  }
  return true;
}

Result<bool> ShapeReader::AcceptsObject(const ObjectSet& set, const Dict& value,
                                        bool with_formats) {
  if (value.size() < set.count_min || (set.count_max && value.size() > *set.count_max))
    return false;
  for (const std::string& name : set.required)
    if (!value.Contains(name)) return false;
  for (const auto& [name, member] : value.items()) {
    KVD_TRY(const bool is_name, Accepts(set.names, name, with_formats));
    if (!is_name) return false;
    KVD_TRY(const NodeSet nodes, PropertyNodes(set, std::string(name.view())));
    KVD_TRY(const bool is_in, Accepts(nodes, member, with_formats));
    if (!is_in) return false;
  }
  return true;
}

Result<NodeSet> ShapeReader::PropertyNodes(const ObjectSet& object, const std::string& name) {
  NodeSet nodes;
  for (const auto& part : object.parts) {
    bool is_known = false;
    if (const auto place = part->by_name.find(name); place != part->by_name.end()) {
      nodes.push_back(place->second);
      is_known = true;
    }
    for (const auto& [pattern, node] : part->patterns) {
      KVD_TRY(const bool matches, Matches(*pattern, name));
      if (!matches) continue;
      nodes.push_back(node);
      is_known = true;
    }
    if (!is_known && part->additional) nodes.push_back(*part->additional);
  }
  std::ranges::sort(nodes);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  return nodes;
}

}  // namespace kvd::schema
