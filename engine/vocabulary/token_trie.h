// A set of a vocabulary's tokens that answers which of them a text begins with.
//
// Made once, immutable, any thread; refers to nothing. A node is a prefix of some token; the
// children of a node lie side by side, by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/vocabulary/token_table.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class TokenTrie {
 public:
  // Nodes, 12 bytes each; a vocabulary of 250,000 tokens has a million.
  static constexpr std::size_t kNodeCountMax = 1u << 24;
  // The empty prefix. No node's child, so it also says that there is no child.
  static constexpr std::uint32_t kRoot = 0;

  // kCorrupt: the texts have more prefixes than kNodeCountMax. REQUIRES: every id is a token of
  // `tokens`, none occurs twice.
  static Result<TokenTrie> Create(const TokenTable& tokens, std::vector<TokenId> ids);

  // The node of `node`'s prefix and one more byte; kRoot where no token begins so.
  std::uint32_t Child(std::uint32_t node, char byte) const;
  // The token that is exactly the node's prefix, or kNoToken.
  TokenId TokenAt(std::uint32_t node) const { return nodes_[node].token; }

  // Nodes are numbered from 0 on, shorter prefixes first; the children of a node are
  // [child_begin, child_end), `byte` the last byte of a node's prefix.
  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::uint32_t child_begin(std::uint32_t node) const { return nodes_[node].child_begin; }
  std::uint32_t child_end(std::uint32_t node) const {
    return nodes_[node].child_begin + nodes_[node].child_count;
  }
  char byte(std::uint32_t node) const { return static_cast<char>(nodes_[node].byte); }

  struct Match {
    std::size_t bytes = 0;
    TokenId token = kNoToken;
  };
  // The longest token that `text` begins with.
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
