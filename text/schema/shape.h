// Shape: what a schema allows, as alternatives of one kind of value each.
//
// Every keyword but anyOf, oneOf and the types becomes a constraint of the alternatives; allOf and
// $ref intersect shapes. Arrays and objects refer to the schemas of their items by node sets, so a
// shape is finite although a schema may be recursive.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/schema/number_set.h"
#include "text/schema/regex.h"
#include "text/schema/schema_document.h"
#include "text/value.h"

namespace kvd::schema {

// Parts of a schema that a value has to satisfy all: sorted, each once. Empty: any value.
using NodeSet = std::vector<NodeId>;

enum class ValueKind : std::uint8_t {
  kNull,
  kBoolean,
  kNumber,
  kString,
  kArray,
  kObject,
  kConstants,  // listed values of any kind
};
inline constexpr std::size_t kTypeCount = 6;  // the kinds before kConstants

using SharedRegex = std::shared_ptr<const RegexNode>;

struct StringSet {
  std::uint64_t length_min = 0;  // in characters
  std::optional<std::uint64_t> length_max;
  std::vector<SharedRegex> patterns;
  std::vector<const RegexNode*> formats;

  bool is_unlimited() const {
    return length_min == 0 && !length_max && patterns.empty() && formats.empty();
  }
};

struct ArraySet {
  std::vector<NodeSet> prefix;  // of the first items
  NodeSet items;                // of the other ones
  bool has_items = false;       // a keyword says what other items are
  std::uint64_t count_min = 0;
  std::optional<std::uint64_t> count_max;
  bool is_unique = false;

  bool is_unlimited() const {
    return prefix.empty() && items.empty() && count_min == 0 && !count_max && !is_unique;
  }
};

// The keywords of one part of a schema that say which properties an object may have.
// additionalProperties concerns the names that the other two keywords of the same part leave.
struct ObjectPart {
  std::vector<std::pair<std::string, NodeId>> properties;
  std::unordered_map<std::string, NodeId> by_name;  // the same
  std::vector<std::pair<SharedRegex, NodeId>> patterns;
  std::optional<NodeId> additional;
};

struct ObjectSet {
  std::vector<std::shared_ptr<const ObjectPart>> parts;
  std::vector<std::string> required;
  NodeSet names;  // propertyNames
  std::uint64_t count_min = 0;
  std::optional<std::uint64_t> count_max;

  bool is_unlimited() const {
    return parts.empty() && required.empty() && names.empty() && count_min == 0 && !count_max;
  }
};

// A schema that the value must not satisfy.
struct Exclusion {
  NodeId node{};
  std::string pointer;  // of the keyword that demands it

  bool operator==(const Exclusion&) const = default;
};

struct Alternative {
  ValueKind kind = ValueKind::kNull;
  std::string pointer;  // of the part of the schema, for errors
  // How a schema without "type" came to this kind: a schema that mentions one kind's keywords is
  // written as values of that kind, although it allows all other kinds.
  bool is_typed = false;        // by type, enum or const
  bool is_mentioned = false;    // by a keyword of this kind
  bool is_passed_over = false;  // by keywords of other kinds alone
  NumberSet number;
  StringSet string;
  ArraySet array;
  ObjectSet object;
  std::vector<Value> constants;
  std::vector<Exclusion> exclusions;

  bool is_written() const { return is_typed || is_mentioned || !is_passed_over; }
  // Whether every value of the kind is in the alternative.
  bool is_unlimited() const {
    return kind != ValueKind::kConstants && exclusions.empty() && !number.is_whole &&
           number.is_unlimited() && string.is_unlimited() && array.is_unlimited() &&
           object.is_unlimited();
  }
};

using Shape = std::vector<Alternative>;

// The shape of any value.
Shape AnyShape();
// Returns whether the shape allows every value.
bool IsAny(const Shape& shape);

NodeSet Union(const NodeSet& a, const NodeSet& b);
// The schemas of the item with this index.
const NodeSet& ItemNodes(const ArraySet& array, std::size_t index);
// The least and greatest number of items. With nothing said about items after a prefix, none follow
// it when an array is written.
std::optional<std::uint64_t> WrittenCountMax(const ArraySet& array);

}  // namespace kvd::schema
