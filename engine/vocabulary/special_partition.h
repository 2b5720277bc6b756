// SpecialPartition cuts a text at the special tokens whose text occurs in it.
//
// Overlaps are resolved in this order: a longer token wins over a shorter one, the lower id wins
// between tokens of equal length, and the leftmost occurrence of one token wins. User-defined
// tokens are always found. Control and unknown tokens are found only on demand, because a user's
// text could imitate them. A SpecialPartition is created after `ResolveSpecialTokens`, is
// immutable, and may be used from any thread. A SpecialPartition refers to the `TokenTable`, which
// must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

// SpecialMatcher finds, at every position of a text, the longest token of a given set that ends
// there, in one pass over the text (Aho and Corasick, "Efficient string matching", 1975).
//
// A SpecialMatcher is built once and then immutable, may be used from any thread, and holds no
// references. A rank is a token's index in this order: longer texts first, texts of equal length by
// ascending id.
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

// A special token, or, if token == kNoToken, the non-empty text between special tokens.
struct TextFragment {
  TokenId token = kNoToken;
  std::string_view text;

  friend bool operator==(const TextFragment&, const TextFragment&) = default;
};

class SpecialPartition {
 public:
  // Errors: kCorrupt, as SpecialMatcher::Create.
  static Result<std::unique_ptr<SpecialPartition>> Create(const TokenTable& tokens);

  // Returns the fragments in order, as views into `text`. `parse_special`: also find control and
  // unknown tokens. The number of steps is linear in the bytes of `text`, for any text and any
  // number of special tokens. Errors: kCancelled. REQUIRES: text.size() < 2^32.
  Result<std::vector<TextFragment>> Cut(std::string_view text, bool parse_special,
                                        WorkControl& work) const;

 private:
  SpecialPartition(const TokenTable& tokens, SpecialMatcher all, SpecialMatcher user_defined)
      : tokens_(tokens), all_(std::move(all)), user_defined_(std::move(user_defined)) {}

  const TokenTable& tokens_;
  const SpecialMatcher all_;
  const SpecialMatcher user_defined_;
};

}  // namespace kvd
