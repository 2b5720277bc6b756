// VocabularyTrie: the texts of a vocabulary's tokens as a trie in depth-first order, so that all
// tokens are examined in one forward scan that skips subtrees.
//
// Immutable after Create; any thread. Node 0 is the empty prefix. The subtree of a node is the
// nodes [node, skip(node)), and the tokens of a subtree are adjacent in tokens().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace kvd {

class VocabularyTrie {
 public:
  // The limit on the number of nodes, each of which has 20 bytes. A vocabulary of 128,000 tokens
  // has about 400,000 nodes.
  static constexpr std::size_t kNodesMax = 1u << 24;

  // A height of kHeightMax stands for kHeightMax or more.
  static constexpr std::uint32_t kHeightMax = 255;

  struct Entry {
    std::string_view text;
    TokenId token = 0;
  };

  // Sets of bytes, as bits of a word. Each ASCII byte belongs to one group. kCharacterGroup stands
  // for whole characters of several bytes, kBrokenGroup for any other bytes above 0x7f.
  using ByteGroups = std::uint64_t;
  static constexpr ByteGroups kCharacterGroup = ByteGroups{1} << 62;
  static constexpr ByteGroups kBrokenGroup = ByteGroups{1} << 63;
  // The group of each ASCII byte.
  static const std::array<ByteGroups, 128>& AsciiGroups();

  // Errors: kUnsupported: more than kNodesMax nodes. REQUIRES: no text is empty; texts have at most
  // 65,534 bytes.
  static Result<VocabularyTrie> Create(std::vector<Entry> entries);

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size() - 1); }
  std::uint32_t skip(std::uint32_t node) const { return nodes_[node].skip; }
  // The last byte of the node's prefix, and the number of the prefix's bytes.
  std::uint8_t byte(std::uint32_t node) const { return nodes_[node].byte; }
  std::uint32_t depth(std::uint32_t node) const { return nodes_[node].depth; }
  std::uint32_t depth_max() const { return depth_max_; }
  // The tokens whose text is the node's prefix.
  std::span<const TokenId> TokensAt(std::uint32_t node) const {
    return tokens().subspan(nodes_[node].token, nodes_[node + 1].token - nodes_[node].token);
  }
  // The tokens whose texts begin with the node's prefix.
  std::span<const TokenId> TokensUnder(std::uint32_t node) const {
    return tokens().subspan(nodes_[node].token, nodes_[skip(node)].token - nodes_[node].token);
  }
  // The bytes of the longest continuation in the node's subtree after the prefix of the node's
  // parent, at most kHeightMax.
  std::uint32_t height(std::uint32_t node) const { return nodes_[node].height; }
  // The groups of the bytes with which the node's tokens continue after the prefix of the node's
  // parent.
  ByteGroups groups(std::uint32_t node) const { return groups_[node]; }
  std::span<const TokenId> tokens() const { return tokens_; }
  std::size_t held_bytes() const {
    return nodes_.capacity() * sizeof(Node) + groups_.capacity() * sizeof(ByteGroups) +
           tokens_.capacity() * sizeof(TokenId);
  }

 private:
  struct Node {
    std::uint32_t skip = 0;
    std::uint32_t token = 0;  // index in tokens_ of the subtree's first token
    std::uint16_t depth = 0;
    std::uint8_t byte = 0;
    std::uint8_t height = 0;
  };

  VocabularyTrie() = default;
  void FindGroups(std::span<const Entry> entries);
  void FindHeights();

  std::vector<Node> nodes_;  // and one after the last
  std::vector<ByteGroups> groups_;
  std::vector<TokenId> tokens_;  // in the order of their texts
  std::uint32_t depth_max_ = 0;
};

}  // namespace kvd
