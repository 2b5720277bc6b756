// SpecialMatcher finds, at every position of a text, the longest token of a given set that ends
// there, in one pass over the text (Aho and Corasick, "Efficient string matching", 1975).
//
// A SpecialMatcher is built once and then immutable, may be used from any thread, and holds no
// references. A rank is a token's index in this order: longer texts first, texts of equal length by
// ascending id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

class SpecialMatcher {
 public:
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  // Errors: kCorrupt, as TokenTrie::Create. REQUIRES: `ids` as TokenTrie::Create requires.
  static Result<SpecialMatcher> Create(const TokenTable& tokens, std::vector<TokenId> ids);

  bool empty() const { return tokens_.empty(); }
  TokenId token(std::uint32_t rank) const { return tokens_[rank]; }
  std::size_t text_bytes(std::uint32_t rank) const { return bytes_[rank]; }
  // The rank of the longest token that is a proper suffix of the token of `rank`; kNoRank: none.
  std::uint32_t shorter(std::uint32_t rank) const { return shorter_[rank]; }

  // The state of a pass over a text.
  using State = std::uint32_t;
  static constexpr State kBegin = TokenTrie::kRoot;
  // Returns the state after one more byte of the text.
  State Next(State state, char byte) const {
    for (;;) {
      const State child = trie_.Child(state, byte);
      if (child != TokenTrie::kRoot) return child;
      if (state == kBegin) return kBegin;
      state = fallbacks_[state];
    }
  }
  // The rank of the longest token that ends at `state`; kNoRank: no token ends there.
  std::uint32_t RankAt(State state) const { return ranks_[state]; }

 private:
  explicit SpecialMatcher(TokenTrie trie) : trie_(std::move(trie)) {}
  void RankTokens(const TokenTable& tokens, std::vector<TokenId> ids);
  void LinkNodes();

  TokenTrie trie_;
  std::vector<TokenId> tokens_;         // by rank
  std::vector<std::uint32_t> bytes_;    // by rank
  std::vector<std::uint32_t> shorter_;  // by rank
  // By node of the trie: the node of its longest proper suffix that is also a node, and RankAt.
  std::vector<State> fallbacks_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace kvd
