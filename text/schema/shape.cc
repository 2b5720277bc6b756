#include "text/schema/shape.h"

#include <algorithm>
#include <iterator>

namespace kvd::schema {

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

}  // namespace kvd::schema
