// The intersection of two shapes: each pair of alternatives of one kind, with the constraints of
// both.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "text/schema/json_value.h"
#include "text/schema/shape_reader.h"

namespace kvd::schema {
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

}  // namespace kvd::schema
