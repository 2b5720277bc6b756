#include "text/schema/regex.h"

#include <algorithm>
#include <utility>

namespace kvd::schema {

// Open pushes "any text" into the alternatives at one end of the expression; an anchor there takes
// the place of that text. An anchor that remains afterwards stands inside the expression.

namespace {

using Kind = RegexNode::Kind;

// Lengths above it are not told apart, so that sums and products stay below 2^64.
constexpr std::uint64_t kLengthCap = std::uint64_t{1} << 40;

RegexNode AnyText() {
  RegexNode any;
  any.kind = Kind::kSet;
  any.set = CodePointSet::All();
  RegexNode repeat;
  repeat.kind = Kind::kRepeat;
  repeat.children.push_back(std::move(any));
  return repeat;
}

bool HasAnchor(const RegexNode& node) {
  return node.kind == Kind::kStart || node.kind == Kind::kEnd ||
         std::ranges::any_of(node.children, HasAnchor);
}

RegexNode Open(RegexNode node, Kind anchor) {
  if (node.kind == anchor) return {};
  if (node.kind == Kind::kAlternation) {
    for (RegexNode& child : node.children) child = Open(std::move(child), anchor);
    return node;
  }
  const bool at_start = anchor == Kind::kStart;
  if (node.kind == Kind::kSequence && !node.children.empty()) {
    RegexNode& outer = at_start ? node.children.front() : node.children.back();
    const bool has_inner_end = outer.kind == Kind::kAlternation || outer.kind == Kind::kSequence;
    if (outer.kind == anchor || (has_inner_end && HasAnchor(outer))) {
      outer = Open(std::move(outer), anchor);
      return node;
    }
  }
  RegexNode opened;
  if (node.kind == Kind::kSequence) {
    opened = std::move(node);
  } else {
    opened.children.push_back(std::move(node));
  }
  opened.children.insert(at_start ? opened.children.begin() : opened.children.end(), AnyText());
  return opened;
}

}  // namespace

Result<RegexNode> WholeText(RegexNode node) {
  node = Open(Open(std::move(node), Kind::kStart), Kind::kEnd);
  if (HasAnchor(node))
    return Fail(Code::kUnsupported, "an anchor inside the expression is not supported");
  return node;
}

std::uint64_t LengthMin(const RegexNode& node) {
  std::uint64_t length = 0;
  switch (node.kind) {
    case Kind::kSet: return 1;
    case Kind::kSequence:
      for (const RegexNode& child : node.children) length += LengthMin(child);
      return std::min(length, kLengthCap);
    case Kind::kAlternation:
      if (node.children.empty()) return 0;
      length = LengthMin(node.children[0]);
      for (const RegexNode& child : node.children) length = std::min(length, LengthMin(child));
      return length;
    case Kind::kRepeat: return std::min(node.min * LengthMin(node.children[0]), kLengthCap);
    case Kind::kStart:
    case Kind::kEnd: return 0;
  }
  return 0;
}

std::optional<std::uint64_t> LengthMax(const RegexNode& node) {
  std::uint64_t length = 0;
  if (node.kind == Kind::kSet) return 1;
  if (node.kind == Kind::kRepeat) {
    const auto one = LengthMax(node.children[0]);
    if (one == 0 || node.max == 0) return 0;
    if (!one || !node.max || *one > kLengthCap / 1024) return std::nullopt;
    return *one * *node.max;
  }
  for (const RegexNode& child : node.children) {
    const auto one = LengthMax(child);
    if (!one) return std::nullopt;
    length = node.kind == Kind::kSequence ? length + *one : std::max(length, *one);
  }
  return length;
}

}  // namespace kvd::schema
