// TokenTrie is a set of a vocabulary's tokens that finds the tokens that a text begins with.
//
// A TokenTrie is built once and then immutable, may be used from any thread, and holds no
// references. Each node is a prefix of some token. The children of a node are adjacent and sorted
// by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/vocabulary/token_table.h"

namespace kvd {

class TokenTrie {
 public:
  // The limit on the number of nodes; a node has 12 bytes. A vocabulary of 250,000 tokens has about
  // a million nodes.
  static constexpr std::size_t kNodeCountMax = 1u << 24;
  // The node of the empty prefix. The root is never a child, so its number also means "no child".
  static constexpr std::uint32_t kRoot = 0;

  struct Entry {
    std::string_view text;
    TokenId token;
  };

  // Errors: kCorrupt: the texts have more prefixes than kNodeCountMax. REQUIRES: no text is empty,
  // and no two are equal.
  static Result<TokenTrie> Create(std::vector<Entry> entries);
  // With the texts of `tokens`. REQUIRES: every id is a token of `tokens` and occurs once.
  static Result<TokenTrie> Create(const TokenTable& tokens, std::span<const TokenId> ids);

  // The node of `node`'s prefix extended by `byte`; kRoot if no token begins with the extended
  // prefix.
  std::uint32_t Child(std::uint32_t node, char byte) const;
  // The token whose text is exactly the node's prefix, or kNoToken.
  TokenId TokenAt(std::uint32_t node) const { return nodes_[node].token; }

  // Nodes are numbered from 0, shorter prefixes first. The children of a node are [child_begin,
  // child_end). `byte` is the last byte of a node's prefix.
  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::uint32_t child_begin(std::uint32_t node) const { return nodes_[node].child_begin; }
  std::uint32_t child_end(std::uint32_t node) const {
    return nodes_[node].child_begin + nodes_[node].child_count;
  }
  char byte(std::uint32_t node) const { return static_cast<char>(nodes_[node].byte); }

  struct Match {
    std::size_t bytes = 0;
    TokenId token = kNoToken;
    std::size_t visited = 0;  // nodes that the search visited
  };
  // The longest token that `text` begins with; bytes == 0 if there is none.
  Match LongestPrefix(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t child_begin = 0;
    TokenId token = kNoToken;
    std::uint16_t child_count = 0;
    unsigned char byte = 0;
  };

  TokenTrie() = default;

  std::vector<Node> nodes_;
};

}  // namespace kvd
