#include "text/schema/shape_reader.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/schema/automaton.h"
#include "text/schema/json_value.h"
#include "text/schema/keyword_reader.h"

namespace kvd::schema {

// ---- shape reader
// A part's shape is the intersection of its own keywords, $ref and allOf, and of the unions anyOf
// and oneOf. A oneOf's branch excludes the other branches: each alternative of the union carries
// them as exclusions, which are checked when the alternative is written.

namespace {

// Counts calls inside each other.
class Level {
 public:
  explicit Level(std::uint32_t& depth) : depth_(depth) { ++depth_; }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  std::uint32_t& depth_;
};

}  // namespace

Result<ShapePointer> ShapeReader::Of(const NodeSet& nodes) {
  if (nodes.size() == 1) return OfNode(nodes[0]);
  if (const auto place = set_shapes_.find(nodes); place != set_shapes_.end()) return place->second;
  Shape shape = AnyShape();
  for (const NodeId node : nodes) {
    KVD_TRY(const ShapePointer one, OfNode(node));
    KVD_TRY(shape, Intersect(shape, *one, node));
  }
  ShapePointer result = std::make_shared<const Shape>(std::move(shape));
  set_shapes_.emplace(nodes, result);
  return result;
}

Result<ShapePointer> ShapeReader::OfNode(NodeId node) {
  const auto [place, is_new] = shapes_.try_emplace(static_cast<std::uint32_t>(node));
  if (!is_new) {
    if (place->second != nullptr) return place->second;
    return Fail(Code::kUnsupported, document_.pointer(node),
                ": the schema refers to itself without an item or a property between");
  }
  if (depth_ >= limits_.depth_max)
    return Fail(Code::kUnsupported, document_.pointer(node), ": more than ", limits_.depth_max,
                " references and combined schemas inside each other");
  const Level level(depth_);
  KVD_TRY(Shape shape, ReadNode(node));
  alternative_count_ += shape.size();
  if (shape.size() > limits_.alternatives_max || alternative_count_ > limits_.alternatives_total)
    return Fail(Code::kUnsupported, document_.pointer(node), ": more than ",
                limits_.alternatives_max, " alternatives, or more than ",
                limits_.alternatives_total, " in the schema");
  ShapePointer result = std::make_shared<const Shape>(std::move(shape));
  shapes_[static_cast<std::uint32_t>(node)] = result;
  return result;
}

Result<Shape> ShapeReader::ReadNode(NodeId node) {
  const Value& schema = document_.schema(node);
  if (schema.is_bool()) return schema.truth() ? AnyShape() : Shape();
  if (!schema.is_dict())
    return Fail(Code::kInvalidArgument, document_.pointer(node),
                ": a schema is an object or a boolean");
  const Dict& keywords = schema.dict();
  KeywordReader reader(*this, node, keywords);
  KVD_CHECK_OK(reader.RefuseUnsupported());
  KVD_TRY(Shape shape, reader.ReadKinds());
  for (const std::string_view keyword : {"enum", "const"}) {
    const Value& values = keywords.Find(keyword);
    if (values.is_missing()) continue;
    if (keyword == "enum" && !values.is_list()) return reader.Invalid(keyword, "a list is needed");
    Alternative constants;
    constants.kind = ValueKind::kConstants;
    constants.pointer = document_.pointer(node);
    constants.is_typed = true;
    constants.constants = keyword == "enum" ? values.items() : std::vector<Value>{values};
    KVD_TRY(shape, Intersect({std::move(constants)}, shape, node));
  }
  KVD_CHECK_OK(ReadCombined(node, keywords, shape));
  return shape;
}

Status ShapeReader::ReadCombined(NodeId node, const Dict& keywords, Shape& shape) {
  const KeywordReader reader(*this, node, keywords);
  if (const Value& reference = keywords.Find("$ref"); !reference.is_missing()) {
    if (!reference.is_string()) return reader.Invalid("$ref", "a text is needed");
    const Result<NodeId> target = document_.Resolve(node, reference.view());
    if (!target)
      return Fail(target.error().code, PointerTo(document_.pointer(node), "$ref"), ": ",
                  target.error().message);
    KVD_TRY(const ShapePointer one, OfNode(*target));
    KVD_TRY(shape, Intersect(shape, *one, node));
  }
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    KVD_CHECK_OK(reader.CheckList(keyword));
  }
  const Value& all = keywords.Find("allOf");
  for (std::size_t i = 0; i < all.items().size(); ++i) {
    const NodeId list = document_.Part(node, all, "allOf");
    KVD_TRY(const ShapePointer one,
            OfNode(document_.Part(list, all.items()[i], std::to_string(i))));
    KVD_TRY(shape, Intersect(shape, *one, node));
  }
  const Value& any = keywords.Find("anyOf");
  if (!any.is_missing()) {
    const NodeId list = document_.Part(node, any, "anyOf");
    Shape branches;
    for (std::size_t i = 0; i < any.items().size(); ++i) {
      KVD_TRY(const ShapePointer one,
              OfNode(document_.Part(list, any.items()[i], std::to_string(i))));
      branches.insert(branches.end(), one->begin(), one->end());
    }
    KVD_TRY(shape, Intersect(shape, branches, node));
  }
  const Value& one_of = keywords.Find("oneOf");
  if (!one_of.is_missing()) KVD_CHECK_OK(ReadOneOf(node, one_of, shape));
  if (const Value& excluded = keywords.Find("not"); !excluded.is_missing()) {
    const Exclusion exclusion{document_.Part(node, excluded, "not"),
                              PointerTo(document_.pointer(node), "not")};
    KVD_TRY(const ShapePointer other, OfNode(exclusion.node));
    if (IsAny(*other)) shape.clear();
    for (Alternative& alternative : shape)
      if (!other->empty()) alternative.exclusions.push_back(exclusion);
  }
  return {};
}

Status ShapeReader::ReadOneOf(NodeId node, const Value& branches, Shape& shape) {
  const NodeId list = document_.Part(node, branches, "oneOf");
  std::vector<Exclusion> exclusions;
  for (std::size_t i = 0; i < branches.items().size(); ++i) {
    const NodeId branch = document_.Part(list, branches.items()[i], std::to_string(i));
    exclusions.push_back({branch, document_.pointer(branch)});
  }
  Shape all;
  for (std::size_t i = 0; i < exclusions.size(); ++i) {
    KVD_TRY(const ShapePointer one, OfNode(exclusions[i].node));
    for (Alternative alternative : *one) {
      for (std::size_t j = 0; j < exclusions.size(); ++j)
        if (j != i) alternative.exclusions.push_back(exclusions[j]);
      all.push_back(std::move(alternative));
    }
    if (all.size() * exclusions.size() > limits_.alternatives_total)
      return Fail(Code::kUnsupported, document_.pointer(list), ": ", all.size(),
                  " alternatives of ", exclusions.size(), " branches");
  }
  KVD_TRY(shape, Intersect(shape, all, node));
  return {};
}

Status ShapeReader::Spend(const std::string& pointer) {
  if (++comparison_count_ <= limits_.comparisons_max) return {};
  return Fail(Code::kUnsupported, pointer, ": more than ", limits_.comparisons_max,
              " comparisons of values and alternatives");
}

Result<SharedRegex> ShapeReader::Pattern(const std::string& pointer, std::string_view text) {
  SharedRegex& known = patterns_[std::string(text)];
  if (known != nullptr) return known;
  Result<RegexNode> parsed = ParsePattern(text);
  if (!parsed) return FailWithin(pointer, parsed.error());
  known = std::make_shared<const RegexNode>(*std::move(parsed));
  return known;
}

// ---- shape values
// Whether a value satisfies a schema: enum and const are filtered by the other keywords, and by the
// other branches of a oneOf. The recursion ends because the value's nesting is bounded.

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
