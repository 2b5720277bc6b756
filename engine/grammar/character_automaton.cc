// The nodes of characters of several bytes are made top down: a node stands for all characters with
// a common prefix of bits. A block of characters that lies wholly inside or outside a range needs
// no node of its own, so only the two ends of each range make new nodes.
#include "engine/grammar/character_automaton.h"

#include <algorithm>
#include <utility>

namespace kvd {
namespace {

constexpr std::uint32_t kCodeMax = 0x10ffff;
constexpr CodeRange kSurrogates{0xd800, 0xdfff};

using Arc = CharacterAutomaton::Arc;

void AppendArc(std::vector<Arc>& arcs, std::uint32_t byte, std::uint16_t target) {
  if (target == CharacterAutomaton::kNone) return;
  const auto value = static_cast<std::uint8_t>(byte);
  if (!arcs.empty() && arcs.back().target == target && arcs.back().last + 1 == value) {
    arcs.back().last = value;
  } else {
    arcs.push_back({value, value, target});
  }
}

// Makes the nodes of the characters of one length.
class NodeMaker {
 public:
  // `nodes`: the nodes made so far; node 0 is reserved for the start.
  explicit NodeMaker(std::vector<std::vector<Arc>>& nodes) : nodes_(nodes) {}

  // Returns the target after the bytes that hold the bits `prefix` if `following` bytes follow.
  // `ranges`: sorted; only code points of this length.
  std::uint16_t Target(std::span<const CodeRange> ranges, std::uint32_t prefix,
                       std::uint32_t following) {
    const std::uint32_t first = prefix << (6 * following);
    const std::uint32_t last = first + ((1u << (6 * following)) - 1);
    const auto found = std::ranges::lower_bound(ranges, first, {}, &CodeRange::last);
    if (found == ranges.end() || found->first > last) return CharacterAutomaton::kNone;
    if (following == 0) return CharacterAutomaton::kAccept;
    const bool is_whole = found->first <= first && found->last >= last;
    if (is_whole && whole_[following] != 0) return whole_[following];
    std::vector<Arc> arcs;
    for (std::uint32_t bits = 0; bits < 64; ++bits)
      AppendArc(arcs, 0x80 + bits, Target(ranges, (prefix << 6) | bits, following - 1));
    const std::uint16_t node = Intern(std::move(arcs));
    if (is_whole) whole_[following] = node;
    return node;
  }

 private:
  std::uint16_t Intern(std::vector<Arc> arcs) {
    const auto [place, is_new] =
        numbers_.try_emplace(std::move(arcs), static_cast<std::uint16_t>(nodes_.size()));
    if (is_new) nodes_.push_back(place->first);
    return place->second;
  }

  std::vector<std::vector<Arc>>& nodes_;
  std::map<std::vector<Arc>, std::uint16_t> numbers_;
  std::array<std::uint16_t, 4> whole_{};  // by following bytes: the node of all characters; 0: none
};

std::vector<CodeRange> Within(std::span<const CodeRange> ranges, CodeRange limits) {
  std::vector<CodeRange> result;
  for (const CodeRange& range : ranges) {
    const CodeRange part{std::max(range.first, limits.first), std::min(range.last, limits.last)};
    if (part.first <= part.last) result.push_back(part);
  }
  return result;
}

}  // namespace

std::vector<CodeRange> NormalizeRanges(std::vector<CodeRange> ranges, bool negated) {
  std::ranges::sort(ranges);
  std::vector<CodeRange> merged;
  for (const CodeRange& range : ranges) {
    if (!merged.empty() &&
        (range.first <= merged.back().last || range.first - merged.back().last == 1)) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  if (negated) {
    std::vector<CodeRange> others;
    std::uint32_t begin = 0;
    for (const CodeRange& range : merged) {
      if (range.first > kCodeMax) break;
      if (range.first > begin) others.push_back({begin, range.first - 1});
      begin = range.last >= kCodeMax ? kCodeMax + 1 : range.last + 1;
    }
    if (begin <= kCodeMax) others.push_back({begin, kCodeMax});
    merged = std::move(others);
  }
  std::vector<CodeRange> result = Within(merged, {0, kSurrogates.first - 1});
  const std::vector<CodeRange> above = Within(merged, {kSurrogates.last + 1, kCodeMax});
  result.insert(result.end(), above.begin(), above.end());
  return result;
}

CharacterAutomaton CharacterAutomaton::Make(std::span<const CodeRange> ranges) {
  struct Length {
    CodeRange codes;
    std::uint32_t lead;       // the lead byte of prefix 0
    std::uint32_t prefixes;   // number of lead bytes
    std::uint32_t following;  // bytes after the lead byte
  };
  static constexpr Length kLengths[] = {{{0, 0x7f}, 0, 0x80, 0},
                                        {{0x80, 0x7ff}, 0xc0, 0x20, 1},
                                        {{0x800, 0xffff}, 0xe0, 0x10, 2},
                                        {{0x10000, kCodeMax}, 0xf0, 0x8, 3}};
  std::vector<std::vector<Arc>> nodes(1);
  NodeMaker maker(nodes);
  std::vector<Arc> start;
  for (const Length& length : kLengths) {
    const std::vector<CodeRange> codes = Within(ranges, length.codes);
    if (codes.empty()) continue;
    for (std::uint32_t prefix = 0; prefix < length.prefixes; ++prefix)
      AppendArc(start, length.lead + prefix, maker.Target(codes, prefix, length.following));
  }
  nodes[0] = std::move(start);
  CharacterAutomaton made;
  made.begins_.push_back(0);
  for (const std::vector<Arc>& node : nodes) {
    made.arcs_.insert(made.arcs_.end(), node.begin(), node.end());
    made.begins_.push_back(static_cast<std::uint32_t>(made.arcs_.size()));
  }
  return made;
}

}  // namespace kvd
