// CharacterAutomaton: reads one character of a class, as UTF-8, byte by byte.
//
// Node 0 is the start. An arc leads from a node to another node or, with the last byte of a
// character, to kAccept. Equal suffixes are shared, so `[^"]` has nine nodes. Only well-formed
// characters are accepted (table 3-7 of the Unicode Standard). Immutable after Make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace kvd {

// The code points from `first` to `last`, both included. REQUIRES: first <= last.
struct CodeRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend auto operator<=>(const CodeRange&, const CodeRange&) = default;
};

// Returns the code points of `ranges`, or with `negated` all others, as sorted ranges that neither
// touch nor overlap. Code points that are no characters (surrogates, above U+10FFFF) are left out.
std::vector<CodeRange> NormalizeRanges(std::vector<CodeRange> ranges, bool negated);

class CharacterAutomaton {
 public:
  // The largest number of ranges. Each end of a range needs at most three nodes, and nodes have
  // numbers of 16 bits.
  static constexpr std::size_t kRangesMax = 8192;
  static constexpr std::uint16_t kAccept = 0xffff;
  static constexpr std::uint16_t kNone = 0xfffe;

  struct Arc {
    std::uint8_t first = 0;  // the arc is taken for the bytes from first to last
    std::uint8_t last = 0;
    std::uint16_t target = kNone;
    friend auto operator<=>(const Arc&, const Arc&) = default;
  };

  // REQUIRES: `ranges` is a result of NormalizeRanges and has at most kRangesMax ranges.
  static CharacterAutomaton Make(std::span<const CodeRange> ranges);

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(begins_.size() - 1); }
  // The arcs of a node in the order of their bytes.
  std::span<const Arc> arcs(std::uint32_t node) const {
    return std::span(arcs_).subspan(begins_[node], begins_[node + 1] - begins_[node]);
  }
  // The node after `byte`, kAccept, or kNone.
  std::uint16_t Next(std::uint32_t node, std::uint8_t byte) const {
    for (const Arc& arc : arcs(node))
      if (byte <= arc.last) return byte >= arc.first ? arc.target : kNone;
    return kNone;
  }
  std::size_t held_bytes() const { return arcs_.capacity() * sizeof(Arc) + begins_.capacity() * 4; }

 private:
  CharacterAutomaton() = default;

  std::vector<Arc> arcs_;
  std::vector<std::uint32_t> begins_;  // [node_count + 1]
};

}  // namespace kvd
