// A keyword that concerns another kind of value than the type demands is not read at all.
#include "text/schema/keyword_reader.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "text/schema/formats.h"
#include "text/schema/json_value.h"

namespace kvd::schema {
namespace {

bool IsEmptyDict(const Value& value) { return value.is_dict() && value.dict().empty(); }
bool IsTrue(const Value& value) { return value.is_bool() && value.truth(); }
bool IsNumber(const Value& value) { return value.is_int() || value.is_float(); }

}  // namespace

std::unexpected<Error> KeywordReader::Invalid(std::string_view keyword,
                                              std::string_view what) const {
  return Fail(Code::kInvalidArgument, PointerTo(shapes_.document_.pointer(node_), keyword), ": ",
              what);
}

std::unexpected<Error> KeywordReader::Unsupported(std::string_view keyword,
                                                  std::string_view what) const {
  return Fail(Code::kUnsupported, PointerTo(shapes_.document_.pointer(node_), keyword), ": ", what);
}

bool KeywordReader::HasAny(std::initializer_list<std::string_view> keywords) const {
  return std::ranges::any_of(keywords, [&](std::string_view name) { return Contains(name); });
}

Status KeywordReader::RefuseUnsupported() const {
  for (const std::string_view name : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    if (Contains(name) && !IsEmptyDict(Find(name)))
      return Unsupported(name, "a dependency between properties is not supported");
  }
  if (Contains("if") && HasAny({"then", "else"}))
    return Unsupported("if", "conditions are not supported");
  if (Contains("contains")) {
    KVD_TRY(const auto min, Count("minContains"));
    if (min != 0 || Contains("maxContains"))
      return Unsupported("contains", "a condition on some items is not supported");
  }
  for (const std::string_view name : {"$dynamicRef", "$recursiveRef"})
    if (Contains(name)) return Unsupported(name, "dynamic references are not supported");
  const bool has_combined = HasAny({"$ref", "allOf", "anyOf", "oneOf", "if"});
  for (const std::string_view name : {"unevaluatedProperties", "unevaluatedItems"}) {
    const Value& rest = Find(name);
    if (rest.is_missing() || IsTrue(rest) || IsEmptyDict(rest) || !has_combined) continue;
    return Unsupported(name, "is not supported together with $ref, allOf, anyOf, oneOf or if");
  }
  return {};
}

Status KeywordReader::CheckList(std::string_view keyword) const {
  const Value& list = Find(keyword);
  if (!list.is_missing() && (!list.is_list() || list.items().empty()))
    return Invalid(keyword, "a list of schemas is needed");
  return {};
}

Result<std::optional<std::uint64_t>> KeywordReader::Count(std::string_view keyword) const {
  const Value& count = Find(keyword);
  if (count.is_missing()) return std::optional<std::uint64_t>();
  const bool is_count = IsNumber(count) && count.number() >= 0 && count.number() < 0x1p53 &&
                        count.number() == std::trunc(count.number());
  if (!is_count) return Invalid(keyword, "a whole number from 0 on is needed");
  return std::optional<std::uint64_t>(static_cast<std::uint64_t>(count.number()));
}

Status KeywordReader::CheckNumber(std::string_view keyword) const {
  const Value& number = Find(keyword);
  if (!number.is_missing() && !IsNumber(number)) return Invalid(keyword, "a number is needed");
  return {};
}

Status KeywordReader::ReadTypes() {
  const Value& type = Find("type");
  has_types_ = !type.is_missing();
  if (!has_types_) {
    std::ranges::fill(allows_, true);
    return {};
  }
  const std::vector<Value> names = type.is_list() ? type.items() : std::vector<Value>{type};
  bool has_integer = false;
  for (const Value& name : names) {
    constexpr std::string_view kNames[] = {"null",   "boolean", "number",
                                           "string", "array",   "object"};
    if (name.is_string() && name.view() == "integer") {
      has_integer = true;
      continue;
    }
    const auto* const place =
        name.is_string() ? std::ranges::find(kNames, name.view()) : std::end(kNames);
    if (place == std::end(kNames)) return Invalid("type", CompactJson(name) + " is not a type");
    allows_[place - std::begin(kNames)] = true;
  }
  bool& allows_number = allows_[static_cast<std::size_t>(ValueKind::kNumber)];
  is_whole_ = has_integer && !allows_number;
  allows_number = allows_number || has_integer;
  return {};
}

bool KeywordReader::Mentions(ValueKind kind) const {
  const Value& format = Find("format");
  switch (kind) {
    case ValueKind::kNumber:
      return HasAny({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"});
    case ValueKind::kString:
      return HasAny({"minLength", "maxLength", "pattern"}) ||
             (format.is_string() && FindFormat(format.view()) != nullptr);
    case ValueKind::kArray:
      return HasAny({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"});
    case ValueKind::kObject:
      return HasAny({"properties", "required", "additionalProperties", "patternProperties",
                     "propertyNames", "minProperties", "maxProperties"});
    default: return false;
  }
}

Result<Shape> KeywordReader::ReadKinds() {
  KVD_CHECK_OK(ReadTypes());
  Shape shape;
  bool has_mention = false;
  for (std::size_t i = 0; i < kTypeCount; ++i) {
    if (!allows_[i]) continue;
    KVD_TRY(Alternative one, ReadKind(static_cast<ValueKind>(i)));
    has_mention = has_mention || one.is_mentioned;
    shape.push_back(std::move(one));
  }
  for (Alternative& one : shape) one.is_passed_over = has_mention && !one.is_mentioned;
  return shape;
}

Result<Alternative> KeywordReader::ReadKind(ValueKind kind) {
  Alternative one;
  one.kind = kind;
  one.pointer = shapes_.document_.pointer(node_);
  one.is_typed = has_types_;
  one.is_mentioned = Mentions(kind);
  one.number.is_whole = kind == ValueKind::kNumber && is_whole_;
  if (!one.is_mentioned) return one;
  switch (kind) {
    case ValueKind::kNumber: KVD_CHECK_OK(ReadNumber(one.number)); break;
    case ValueKind::kString: KVD_CHECK_OK(ReadString(one.string)); break;
    case ValueKind::kArray: KVD_CHECK_OK(ReadArray(one.array)); break;
    case ValueKind::kObject: KVD_CHECK_OK(ReadObject(one.object)); break;
    default: break;
  }
  return one;
}

Status KeywordReader::ReadNumber(NumberSet& number) const {
  NumberSet limits;
  const auto add = [&](const Value& bound, bool is_min, bool is_exclusive) {
    if (bound.is_missing()) return;
    NumberSet one;
    (is_min ? one.min : one.max) = NumberBound{bound, is_exclusive};
    limits = Intersection(limits, one);
  };
  for (const std::string_view keyword :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
    KVD_CHECK_OK(CheckNumber(keyword));
  }
  const Value& multiple = Find("multipleOf");
  add(Find("minimum"), true, false);
  add(Find("maximum"), false, false);
  add(Find("exclusiveMinimum"), true, true);
  add(Find("exclusiveMaximum"), false, true);
  if (!multiple.is_missing()) {
    if (multiple.number() <= 0) return Invalid("multipleOf", "a number above 0 is needed");
    limits.multiples.push_back(multiple);
  }
  number = Intersection(number, limits);
  return {};
}

Status KeywordReader::ReadString(StringSet& string) const {
  KVD_TRY(const auto length_min, Count("minLength"));
  KVD_TRY(string.length_max, Count("maxLength"));
  string.length_min = length_min.value_or(0);
  if (const Value& pattern = Find("pattern"); !pattern.is_missing()) {
    if (!pattern.is_string()) return Invalid("pattern", "a text is needed");
    const std::string pointer = PointerTo(shapes_.document_.pointer(node_), "pattern");
    KVD_TRY(SharedRegex regex, shapes_.Pattern(pointer, pattern.view()));
    string.patterns.push_back(std::move(regex));
  }
  const Value& format = Find("format");
  const RegexNode* const texts = format.is_string() ? FindFormat(format.view()) : nullptr;
  if (texts != nullptr) string.formats.push_back(texts);
  return {};
}

Status KeywordReader::ReadArray(ArraySet& array) const {
  SchemaDocument& document = shapes_.document_;
  KVD_TRY(const auto count_min, Count("minItems"));
  KVD_TRY(array.count_max, Count("maxItems"));
  array.count_min = count_min.value_or(0);
  // Draft 7: "items" is a list, and "additionalItems" concerns the other items.
  const bool is_list = Find("items").is_list();
  const std::string_view prefix_keyword = is_list ? "items" : "prefixItems";
  const std::string_view items_keyword = is_list ? "additionalItems" : "items";
  const Value& prefix = Find(prefix_keyword);
  if (!prefix.is_missing()) {
    if (!prefix.is_list()) return Invalid(prefix_keyword, "a list of schemas is needed");
    for (std::size_t i = 0; i < prefix.items().size(); ++i) {
      const NodeId list = document.Part(node_, prefix, prefix_keyword);
      array.prefix.push_back({document.Part(list, prefix.items()[i], std::to_string(i))});
    }
  }
  const std::string_view rest_keyword =
      Contains(items_keyword) ? items_keyword : "unevaluatedItems";
  const Value& items = Find(rest_keyword);
  if (!items.is_missing()) {
    array.has_items = true;
    if (!IsTrue(items) && !IsEmptyDict(items))
      array.items = {document.Part(node_, items, rest_keyword)};
  }
  const Value& unique = Find("uniqueItems");
  if (!unique.is_missing() && !unique.is_bool())
    return Invalid("uniqueItems", "a boolean is needed");
  array.is_unique = unique.truth();
  return {};
}

Status KeywordReader::ReadObject(ObjectSet& object) const {
  KVD_TRY(const auto count_min, Count("minProperties"));
  KVD_TRY(object.count_max, Count("maxProperties"));
  object.count_min = count_min.value_or(0);
  if (const Value& required = Find("required"); !required.is_missing()) {
    if (!required.is_list()) return Invalid("required", "a list of names is needed");
    std::unordered_set<std::string_view> known;
    for (const Value& name : required.items()) {
      if (!name.is_string()) return Invalid("required", "a list of names is needed");
      if (known.insert(name.view()).second) object.required.emplace_back(name.view());
    }
  }
  if (const Value& names = Find("propertyNames"); !names.is_missing())
    object.names = {shapes_.document_.Part(node_, names, "propertyNames")};
  auto part = std::make_shared<ObjectPart>();
  for (const std::string_view keyword : {"properties", "patternProperties"}) {
    const Value& schemas = Find(keyword);
    if (schemas.is_missing()) continue;
    if (!schemas.is_dict()) return Invalid(keyword, "an object is needed");
    KVD_CHECK_OK(keyword == "properties" ? ReadProperties(schemas.dict(), *part)
                                         : ReadPatterns(schemas.dict(), *part));
  }
  KVD_TRY(part->additional, Additional());
  const bool is_empty = part->properties.empty() && part->patterns.empty() && !part->additional &&
                        !Contains("properties");
  if (!is_empty) object.parts.push_back(std::move(part));
  return {};
}

Status KeywordReader::ReadProperties(const Dict& properties, ObjectPart& part) const {
  const NodeId all = shapes_.document_.Part(node_, Find("properties"), "properties");
  for (const auto& [name, schema] : properties.items()) {
    const NodeId node = shapes_.document_.Part(all, schema, name.view());
    part.properties.emplace_back(std::string(name.view()), node);
    part.by_name.emplace(std::string(name.view()), node);
  }
  return {};
}

Status KeywordReader::ReadPatterns(const Dict& patterns, ObjectPart& part) const {
  const NodeId all = shapes_.document_.Part(node_, Find("patternProperties"), "patternProperties");
  for (const auto& [text, schema] : patterns.items()) {
    const NodeId node = shapes_.document_.Part(all, schema, text.view());
    KVD_TRY(SharedRegex regex, shapes_.Pattern(shapes_.document_.pointer(node), text.view()));
    part.patterns.emplace_back(std::move(regex), node);
  }
  return {};
}

Result<std::optional<NodeId>> KeywordReader::Additional() const {
  // Without combined schemas, unevaluatedProperties means the same.
  for (const std::string_view keyword : {"additionalProperties", "unevaluatedProperties"}) {
    const Value& schema = Find(keyword);
    if (schema.is_missing()) continue;
    if (!schema.is_bool() && !schema.is_dict())
      return Invalid(keyword, "a schema is an object or a boolean");
    return std::optional<NodeId>(shapes_.document_.Part(node_, schema, keyword));
  }
  return std::optional<NodeId>();
}

}  // namespace kvd::schema
