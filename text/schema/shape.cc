#include "text/schema/shape.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "text/schema/automaton.h"
#include "text/schema/json_value.h"
#include "text/schema/shape_reader.h"

namespace kvd::schema {

// ---- shape
Shape AnyShape() {
  Shape shape(kTypeCount);
  for (std::size_t i = 0; i < kTypeCount; ++i) shape[i].kind = static_cast<ValueKind>(i);
  return shape;
}

bool IsAny(const Shape& shape) {
  std::size_t kinds = 0;  // a bit for each kind that is allowed completely
  for (const Alternative& one : shape) {
    if (!one.is_unlimited() || !one.is_written()) return false;
    kinds |= std::size_t{1} << static_cast<std::size_t>(one.kind);
  }
  return kinds == (std::size_t{1} << kTypeCount) - 1;
}

NodeSet Union(const NodeSet& a, const NodeSet& b) {
  NodeSet both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

const NodeSet& ItemNodes(const ArraySet& array, std::size_t index) {
  return index < array.prefix.size() ? array.prefix[index] : array.items;
}

std::optional<std::uint64_t> WrittenCountMax(const ArraySet& array) {
  const std::uint64_t prefix_count = array.prefix.size();
  const bool is_closed = prefix_count > 0 && !array.has_items && array.count_min <= prefix_count;
  if (!is_closed) return array.count_max;
  return std::min(prefix_count, array.count_max.value_or(prefix_count));
}

// ---- shape intersection
// The intersection of two shapes: each pair of alternatives of one kind, with the constraints of
// both.

namespace {

template <class Count>
std::optional<Count> Least(const std::optional<Count>& a, const std::optional<Count>& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

template <class Item>
void AppendNew(std::vector<Item>& target, const std::vector<Item>& items) {
  for (const Item& item : items)
    if (std::ranges::find(target, item) == target.end()) target.push_back(item);
}

StringSet Intersection(const StringSet& a, const StringSet& b) {
  StringSet both = a;
  both.length_min = std::max(a.length_min, b.length_min);
  both.length_max = Least(a.length_max, b.length_max);
  AppendNew(both.patterns, b.patterns);
  AppendNew(both.formats, b.formats);
  return both;
}

ArraySet Intersection(const ArraySet& a, const ArraySet& b) {
  ArraySet both;
  for (std::size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i)
    both.prefix.push_back(Union(ItemNodes(a, i), ItemNodes(b, i)));
  both.items = Union(a.items, b.items);
  both.has_items = a.has_items || b.has_items;
  both.count_min = std::max(a.count_min, b.count_min);
  both.count_max = Least(a.count_max, b.count_max);
  both.is_unique = a.is_unique || b.is_unique;
  return both;
}

ObjectSet Intersection(const ObjectSet& a, const ObjectSet& b) {
  ObjectSet both = a;
  AppendNew(both.parts, b.parts);
  std::unordered_set<std::string_view> known(a.required.begin(), a.required.end());
  for (const std::string& name : b.required)
    if (known.insert(name).second) both.required.push_back(name);
  both.names = Union(a.names, b.names);
  both.count_min = std::max(a.count_min, b.count_min);
  both.count_max = Least(a.count_max, b.count_max);
  return both;
}

}  // namespace

Result<Alternative> ShapeReader::IntersectSameKind(const Alternative& a, const Alternative& b) {
  Alternative both;
  both.kind = a.kind;
  both.pointer = a.pointer.empty() ? b.pointer : a.pointer;
  both.is_typed = a.is_typed || b.is_typed;
  both.is_mentioned = a.is_mentioned || b.is_mentioned;
  both.is_passed_over = a.is_passed_over || b.is_passed_over;
  switch (a.kind) {
    case ValueKind::kNumber: both.number = Intersection(a.number, b.number); break;
    case ValueKind::kString: both.string = Intersection(a.string, b.string); break;
    case ValueKind::kArray: both.array = Intersection(a.array, b.array); break;
    case ValueKind::kObject: both.object = Intersection(a.object, b.object); break;
    default: break;
  }
  both.exclusions = a.exclusions;
  AppendNew(both.exclusions, b.exclusions);
  return both;
}

Result<Shape> ShapeReader::Intersect(const Shape& a, const Shape& b, NodeId node) {
  if (IsAny(a)) return b;
  if (IsAny(b)) return a;
  Shape both;
  for (const Alternative& x : a) {
    for (const Alternative& y : b) {
      const bool has_constants = x.kind == ValueKind::kConstants || y.kind == ValueKind::kConstants;
      if (!has_constants && x.kind != y.kind) continue;
      if (!has_constants) {
        KVD_TRY(Alternative pair, IntersectSameKind(x, y));
        both.push_back(std::move(pair));
      } else {
        const bool x_first = x.kind == ValueKind::kConstants;
        Alternative rest = x_first ? x : y;
        const Alternative& other = x_first ? y : x;
        std::vector<Value> kept;
        for (const Value& value : rest.constants) {
          KVD_TRY(const bool is_in, AcceptsAlternative(other, value, true));
          if (is_in) kept.push_back(value);
        }
        if (kept.empty()) continue;
        rest.constants = std::move(kept);
        AppendNew(rest.exclusions, other.exclusions);
        both.push_back(std::move(rest));
      }
      if (both.size() > limits_.alternatives_max)
        return Fail(Code::kUnsupported, document_.pointer(node), ": more than ",
                    limits_.alternatives_max, " alternatives");
    }
  }
  return both;
}

// ---- shape disjoint
// Whether two schemas have no value in common. Every answer "yes" is a proof: types that differ,
// ranges that do not meet, a property or an item whose schemas are disjoint, or a property that one
// side demands and the other one never has. Formats are annotations and prove nothing.

namespace {

constexpr std::size_t kStatesMax = 512;
constexpr std::size_t kDisjointStepsMax = 1 << 14;

bool LengthsAreDisjoint(std::uint64_t a_min, const std::optional<std::uint64_t>& a_max,
                        std::uint64_t b_min, const std::optional<std::uint64_t>& b_max) {
  return (a_max && *a_max < b_min) || (b_max && *b_max < a_min);
}

bool StringsAreDisjoint(const StringSet& written, const StringSet& other) {
  if (LengthsAreDisjoint(written.length_min, written.length_max, other.length_min,
                         other.length_max))
    return true;
  TextConstraint both;
  for (const StringSet* set : {&written, &other})
    for (const SharedRegex& pattern : set->patterns) both.required.push_back(pattern.get());
  for (const RegexNode* format : written.formats) both.required.push_back(format);
  both.length_min = std::max(written.length_min, other.length_min);
  both.length_max = written.length_max ? written.length_max : other.length_max;
  if (other.length_max) both.length_max = std::min(*both.length_max, *other.length_max);
  if (both.required.empty()) return false;
  AutomatonLimits limits;
  limits.states_max = kStatesMax;
  limits.steps_max = kDisjointStepsMax;
  const Result<Automaton> texts = BuildAutomaton(both, limits);
  return texts && texts->states.empty();
}

}  // namespace

Result<bool> ShapeReader::AreDisjoint(const Alternative& written, const NodeSet& nodes) {
  KVD_TRY(const ShapePointer shape, Of(nodes));
  for (const Alternative& other : *shape) {
    KVD_TRY(const bool are_disjoint, AreDisjointKinds(written, other));
    if (!are_disjoint) return false;
  }
  return true;
}

Result<bool> ShapeReader::AreDisjointKinds(const Alternative& written, const Alternative& other) {
  KVD_CHECK_OK(Spend(written.pointer));
  if (other.kind == ValueKind::kConstants || written.kind == ValueKind::kConstants) {
    const Alternative& constants = other.kind == ValueKind::kConstants ? other : written;
    const Alternative& rest = other.kind == ValueKind::kConstants ? written : other;
    for (const Value& value : constants.constants) {
      KVD_TRY(const bool is_in, AcceptsAlternative(rest, value, false));
      if (is_in) return false;
    }
    return true;
  }
  if (written.kind != other.kind) return true;
  switch (written.kind) {
    case ValueKind::kNumber: return schema::AreDisjoint(written.number, other.number);
    case ValueKind::kString: return StringsAreDisjoint(written.string, other.string);
    case ValueKind::kArray: return AreDisjointArrays(written.array, other.array);
    case ValueKind::kObject: return AreDisjointObjects(written, other);
    default: return false;
  }
}

Result<bool> ShapeReader::AreDisjointSets(const NodeSet& written, const NodeSet& other) {
  if (written.empty() || other.empty()) return false;
  if (depth_ >= limits_.depth_max) return false;
  ++depth_;
  Result<ShapePointer> shape = Of(written);
  Result<bool> are_disjoint = true;
  if (!shape) are_disjoint = std::unexpected(shape.error());
  for (std::size_t i = 0; shape && i < (*shape)->size() && are_disjoint && *are_disjoint; ++i) {
    const Alternative& one = (**shape)[i];
    if (one.is_written()) are_disjoint = AreDisjoint(one, other);
  }
  --depth_;
  return are_disjoint;
}

Result<bool> ShapeReader::AreDisjointArrays(const ArraySet& written, const ArraySet& other) {
  if (LengthsAreDisjoint(written.count_min, WrittenCountMax(written), other.count_min,
                         other.count_max))
    return true;
  const std::uint64_t common = std::max(written.count_min, other.count_min);
  const std::size_t known = std::max({written.prefix.size(), other.prefix.size(), std::size_t{1}});
  for (std::size_t i = 0; i < std::min<std::uint64_t>(common, known); ++i) {
    KVD_TRY(const bool differ, AreDisjointSets(ItemNodes(written, i), ItemNodes(other, i)));
    if (differ) return true;
  }
  return false;
}

Result<bool> ShapeReader::AreDisjointObjects(const Alternative& written, const Alternative& other) {
  const ObjectSet& a = written.object;
  const ObjectSet& b = other.object;
  if (LengthsAreDisjoint(std::max<std::uint64_t>(a.count_min, a.required.size()), a.count_max,
                         std::max<std::uint64_t>(b.count_min, b.required.size()), b.count_max))
    return true;
  for (const std::string& name : b.required) {
    KVD_TRY(const bool may_write, MayWrite(a, name));
    if (!may_write) return true;
  }
  for (const std::string& name : a.required) {
    KVD_TRY(const NodeSet a_nodes, PropertyNodes(a, name));
    KVD_TRY(const NodeSet b_nodes, PropertyNodes(b, name));
    KVD_TRY(const ShapePointer b_shape, Of(b_nodes));
    if (b_shape->empty()) return true;
    // A written object always has the property; the other schema constrains it if it is there.
    KVD_TRY(const bool differ, AreDisjointSets(a_nodes, b_nodes));
    if (differ) return true;
  }
  // A property that the other schema demands is there, or the object is not in it.
  for (const std::string& name : b.required) {
    KVD_TRY(const NodeSet a_nodes, PropertyNodes(a, name));
    KVD_TRY(const NodeSet b_nodes, PropertyNodes(b, name));
    KVD_TRY(const bool differ, AreDisjointSets(a_nodes, b_nodes));
    if (differ) return true;
  }
  return false;
}

Result<bool> ShapeReader::MayWrite(const ObjectSet& object, const std::string& name) {
  KVD_TRY(const NodeSet nodes, PropertyNodes(object, name));
  KVD_TRY(const ShapePointer shape, Of(nodes));
  if (shape->empty()) return false;
  if (std::ranges::find(object.required, name) != object.required.end()) return true;
  bool has_rest = false;
  bool is_named = false;
  for (const auto& part : object.parts) {
    has_rest = has_rest || part->additional.has_value() || !part->patterns.empty();
    is_named = is_named || part->by_name.contains(name);
  }
  return is_named || has_rest || object.parts.empty();
}

}  // namespace kvd::schema
