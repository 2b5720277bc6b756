// The trie is built level by level from the sorted texts: the tokens below a node are a range of
// the sorted texts, and each child's range is the part of its parent's range with the same next
// byte.
#include "engine/vocabulary/token_trie.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvd {

Result<TokenTrie> TokenTrie::Create(const TokenTable& tokens, std::span<const TokenId> ids) {
  std::vector<Entry> entries;
  entries.reserve(ids.size());
  for (const TokenId id : ids) entries.push_back({tokens.text(id), id});
  return Create(std::move(entries));
}

Result<TokenTrie> TokenTrie::Create(std::vector<Entry> entries) {
  std::ranges::sort(entries, {}, &Entry::text);
  struct Range {
    std::size_t begin;
    std::size_t end;
    std::size_t depth;  // bytes of the prefix
  };
  TokenTrie trie;
  trie.nodes_.emplace_back();
  std::vector<Range> ranges = {{0, entries.size(), 0}};  // by node
  for (std::size_t node = 0; node < ranges.size(); ++node) {
    Range range = ranges[node];
    if (range.begin < range.end && entries[range.begin].text.size() == range.depth)
      trie.nodes_[node].token = entries[range.begin++].token;
    trie.nodes_[node].child_begin = static_cast<std::uint32_t>(ranges.size());
    while (range.begin < range.end) {
      char byte = entries[range.begin].text[range.depth];
      std::size_t end = range.begin + 1;
      while (end < range.end && entries[end].text[range.depth] == byte) ++end;
      if (ranges.size() == kNodeCountMax) {
        return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: the texts have more than ",
                    kNodeCountMax, " different prefixes");
      }
      ranges.push_back({range.begin, end, range.depth + 1});
      trie.nodes_.emplace_back().byte = static_cast<unsigned char>(byte);
      ++trie.nodes_[node].child_count;
      range.begin = end;
    }
  }
  return trie;
}

std::uint32_t TokenTrie::Child(std::uint32_t node, char byte) const {
  auto wanted = static_cast<unsigned char>(byte);
  const Node* begin = nodes_.data() + nodes_[node].child_begin;
  const Node* end = begin + nodes_[node].child_count;
  const Node* found = std::ranges::lower_bound(begin, end, wanted, {}, &Node::byte);
  if (found == end || found->byte != wanted) return kRoot;
  return static_cast<std::uint32_t>(found - nodes_.data());
}

TokenTrie::Match TokenTrie::LongestPrefix(std::string_view text) const {
  Match longest;
  std::uint32_t node = kRoot;
  for (std::size_t i = 0; i < text.size(); ++i) {
    node = Child(node, text[i]);
    if (node == kRoot) break;
    ++longest.visited;
    if (nodes_[node].token == kNoToken) continue;
    longest.bytes = i + 1;
    longest.token = nodes_[node].token;
  }
  return longest;
}

}  // namespace kvd
