// Every change ends with Normalize, so the ranges are always sorted and as few as possible.
#include "text/schema/code_point_set.h"

#include <algorithm>
#include <utility>

namespace kvd::schema {
namespace {

constexpr std::uint32_t kSurrogateFirst = 0xD800;
constexpr std::uint32_t kSurrogateLast = 0xDFFF;

}  // namespace

CodePointSet CodePointSet::All() { return Of({{0, kLast}}); }

CodePointSet CodePointSet::Of(std::uint32_t code_point) { return Of({{code_point, code_point}}); }

CodePointSet CodePointSet::Of(std::vector<CodePointRange> ranges) {
  CodePointSet set;
  set.ranges_ = std::move(ranges);
  set.Normalize();
  return set;
}

void CodePointSet::Add(std::uint32_t first, std::uint32_t last) {
  ranges_.push_back({first, last});
  Normalize();
}

void CodePointSet::Add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  Normalize();
}

bool CodePointSet::Contains(std::uint32_t code_point) const {
  return std::ranges::any_of(ranges_, [&](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

CodePointSet CodePointSet::Complement() const {
  CodePointSet rest;
  std::uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (next < range.first) rest.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) rest.ranges_.push_back({next, kLast});
  rest.Normalize();
  return rest;
}

CodePointSet CodePointSet::Intersection(const CodePointSet& other) const {
  CodePointSet both;
  for (const CodePointRange& a : ranges_) {
    for (const CodePointRange& b : other.ranges_) {
      const std::uint32_t first = std::max(a.first, b.first);
      const std::uint32_t last = std::min(a.last, b.last);
      if (first <= last) both.ranges_.push_back({first, last});
    }
  }
  both.Normalize();
  return both;
}

void CodePointSet::Normalize() {
  std::ranges::sort(ranges_, {}, &CodePointRange::first);
  std::vector<CodePointRange> merged;
  const auto append = [&](std::uint32_t first, std::uint32_t last) {
    if (first > last) return;
    if (!merged.empty() && first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, last);
    } else {
      merged.push_back({first, last});
    }
  };
  for (const CodePointRange& range : ranges_) {
    append(range.first, std::min(range.last, kSurrogateFirst - 1));
    append(std::max(range.first, kSurrogateLast + 1), range.last);
  }
  ranges_ = std::move(merged);
}

}  // namespace kvd::schema
