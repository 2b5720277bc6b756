// SpecialMatcher: finds at every place of a text the longest of a set of tokens that ends there, in
// one pass over the text (Aho and Corasick, "Efficient string matching", 1975).
//
// Made once, immutable, any thread; refers to nothing. Ranks order the tokens: longer texts first,
// equally long ones by their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class SpecialMatcher {
 public:
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  // kCorrupt as TokenTrie::Create. REQUIRES: ids as there.
  static Result<SpecialMatcher> Create(const TokenTable& tokens, std::vector<TokenId> ids);

  bool empty() const { return tokens_.empty(); }
  TokenId token(std::uint32_t rank) const { return tokens_[rank]; }
  std::size_t text_bytes(std::uint32_t rank) const { return bytes_[rank]; }
  // The longest token that is a proper suffix of that one; kNoRank: none is.
  std::uint32_t shorter(std::uint32_t rank) const { return shorter_[rank]; }

  // Where a pass over a text stands.
  using State = std::uint32_t;
  static constexpr State kBegin = TokenTrie::kRoot;
  // The state behind one more byte.
  State Next(State state, char byte) const {
    for (;;) {
      const State child = trie_.Child(state, byte);
      if (child != TokenTrie::kRoot) return child;
      if (state == kBegin) return kBegin;
      state = fallbacks_[state];
    }
  }
  // The longest token that ends there; kNoRank: none does.
  std::uint32_t RankAt(State state) const { return ranks_[state]; }

 private:
  explicit SpecialMatcher(TokenTrie trie) : trie_(std::move(trie)) {}
  void RankTokens(const TokenTable& tokens, std::vector<TokenId> ids);
  void LinkNodes();

  TokenTrie trie_;
  std::vector<TokenId> tokens_;         // by rank
  std::vector<std::uint32_t> bytes_;    // by rank
  std::vector<std::uint32_t> shorter_;  // by rank
  // By node of the trie: the node of its longest proper suffix that is one, and RankAt.
  std::vector<State> fallbacks_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace kvd
