// The sorted texts, each compared with the one before, give the nodes in depth-first order: a text
// opens a node for each byte after the common prefix, and closes the nodes of the earlier text that
// are deeper than the common prefix.
#include "engine/grammar/vocabulary_trie.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace kvd {
namespace {

using ByteGroups = VocabularyTrie::ByteGroups;

// Each printable character and each of \t \n \r is a group of its own, except that the letters a to
// z, the letters A to Z, the digits, and the other control characters each form one group.
std::array<ByteGroups, 128> MakeAsciiGroups() {
  std::array<ByteGroups, 128> groups{};
  unsigned next = 4;
  for (unsigned byte = 0; byte < 128; ++byte) {
    const char c = static_cast<char>(byte);
    unsigned group = 0;
    if (c >= 'a' && c <= 'z') {
      group = 1;
    } else if (c >= 'A' && c <= 'Z') {
      group = 2;
    } else if (c >= '0' && c <= '9') {
      group = 3;
    } else if (byte >= 0x20 || c == '\t' || c == '\n' || c == '\r') {
      group = next++;
    }
    groups[byte] = ByteGroups{1} << group;
  }
  return groups;
}

}  // namespace

const std::array<ByteGroups, 128>& VocabularyTrie::AsciiGroups() {
  static const std::array<ByteGroups, 128> groups = MakeAsciiGroups();
  return groups;
}

Result<VocabularyTrie> VocabularyTrie::Create(std::vector<Entry> entries) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    const int order = a.text.compare(b.text);
    return order < 0 || (order == 0 && a.token < b.token);
  });
  VocabularyTrie made;
  made.nodes_.push_back({});
  std::vector<std::uint32_t> open{0};  // by depth: the node of the present prefix
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; open.size() > depth + 1; open.pop_back())
      made.nodes_[open.back()].skip = static_cast<std::uint32_t>(made.nodes_.size());
  };
  for (const Entry& entry : entries) {
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(before, entry.text).in1 - before.begin());
    close(common);
    if (made.nodes_.size() + entry.text.size() - common > kNodesMax)
      return Fail(Code::kUnsupported, "vocabulary: its tokens have more than ", kNodesMax,
                  " prefixes");
    for (std::size_t i = common; i < entry.text.size(); ++i) {
      open.push_back(static_cast<std::uint32_t>(made.nodes_.size()));
      made.nodes_.push_back({.token = static_cast<std::uint32_t>(made.tokens_.size()),
                             .depth = static_cast<std::uint16_t>(i + 1),
                             .byte = static_cast<std::uint8_t>(entry.text[i])});
    }
    made.depth_max_ = std::max(made.depth_max_, static_cast<std::uint32_t>(entry.text.size()));
    made.tokens_.push_back(entry.token);
    before = entry.text;
  }
  close(0);
  made.nodes_[0].skip = static_cast<std::uint32_t>(made.nodes_.size());
  made.nodes_.push_back({.token = static_cast<std::uint32_t>(made.tokens_.size())});
  made.FindGroups(entries);
  made.FindHeights();
  return made;
}

// Backwards, so that a node's children precede it; `heights` has the heights by depth of the
// children seen since the last node of the depth above.
void VocabularyTrie::FindHeights() {
  std::vector<std::uint32_t> heights(depth_max_ + 2);
  for (std::uint32_t node = node_count(); node-- > 1;) {
    const std::uint32_t below = std::exchange(heights[depth(node) + 1], 0);
    const std::uint32_t own = std::min(below + 1, kHeightMax);
    nodes_[node].height = static_cast<std::uint8_t>(own);
    heights[depth(node)] = std::max(heights[depth(node)], own);
  }
}

// For each token and each node on its path: the groups of the bytes from the node's byte on. A
// suffix of the text has kBrokenGroup unless it consists of whole characters.
void VocabularyTrie::FindGroups(std::span<const Entry> entries) {
  groups_.assign(nodes_.size(), 0);
  std::vector<ByteGroups> suffixes;
  std::vector<std::uint32_t> path(depth_max_ + 1);
  std::uint32_t node = 0;
  for (const Entry& entry : entries) {
    const std::string_view text = entry.text;
    // suffixes[i]: the groups of text.substr(i).
    suffixes.assign(text.size() + 1, 0);
    for (std::size_t i = text.size(); i-- > 0;) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      if (byte < 0x80) {
        suffixes[i] = suffixes[i + 1] | AsciiGroups()[byte];
        continue;
      }
      const std::size_t bytes = WellFormedBytes(text.substr(i));
      suffixes[i] = bytes == 0 ? kBrokenGroup : suffixes[i + bytes] | kCharacterGroup;
    }
    // The nodes that this token opens follow the nodes of the tokens before it.
    while (node + 1 < node_count() &&
           nodes_[node + 1].token < static_cast<std::uint32_t>(&entry - entries.data()) + 1) {
      ++node;
      path[nodes_[node].depth] = node;
    }
    for (std::size_t i = 0; i < text.size(); ++i) groups_[path[i + 1]] |= suffixes[i];
  }
}

}  // namespace kvd
