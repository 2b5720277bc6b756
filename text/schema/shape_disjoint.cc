// Whether two schemas have no value in common. Every answer "yes" is a proof: types that differ,
// ranges that do not meet, a property or an item whose schemas are disjoint, or a property that one
// side demands and the other one never has. Formats are annotations and prove nothing.
#include <algorithm>

#include "text/schema/automaton.h"
#include "text/schema/shape_reader.h"

namespace kvd::schema {
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
