// GrammarVocabulary: what grammars need of a model's vocabulary.
//
// Built once for a model, immutable, shared by all grammars and threads. It keeps no reference to
// the Vocabulary.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// VocabularyTrie: the texts of a vocabulary's tokens as a trie in depth-first order, so that all
// tokens are examined in one forward scan that skips subtrees.
//
// Immutable after Create; any thread. Node 0 is the empty prefix. The subtree of a node is the
// nodes [node, skip(node)), and the tokens of a subtree are adjacent in tokens().
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

class GrammarVocabulary {
 public:
  // `row_size`: the length of a row of logits, which may have entries without a token at its end.
  // Errors: kNoTokenizer: the vocabulary has no text; kInvalidArgument: row_size is below the
  // vocabulary's size; kUnsupported: as VocabularyTrie::Create.
  static Result<std::shared_ptr<const GrammarVocabulary>> Create(const Vocabulary& vocabulary,
                                                                 std::uint32_t row_size);

  std::uint32_t row_size() const { return row_size_; }
  std::uint32_t vocab_size() const { return static_cast<std::uint32_t>(text_ends_.size()); }
  bool Contains(TokenId token) const {
    return token >= 0 && static_cast<std::uint32_t>(token) < vocab_size();
  }
  // The bytes that a generated token contributes to the text. Empty for tokens that contribute none
  // (control tokens, for example) and for end-of-generation tokens. REQUIRES: Contains(token).
  std::string_view Text(TokenId token) const {
    const auto index = static_cast<std::size_t>(token);
    const std::size_t begin = index == 0 ? 0 : text_ends_[index - 1];
    return std::string_view(texts_).substr(begin, text_ends_[index] - begin);
  }
  bool IsEndOfGeneration(TokenId token) const;
  // Ascending.
  std::span<const TokenId> end_of_generation() const { return end_of_generation_; }
  // The token whose text is `text`, which begins with '<' and ends with '>'; kNoToken if there is
  // none.
  TokenId FindBracketed(std::string_view text) const;
  // The tokens that a negated token terminal may match, as the bits of a TokenMask: all that have a
  // text of their own, also a hidden one, and do not end the generation.
  std::span<const std::uint64_t> named_tokens() const { return named_tokens_; }
  // The tokens with a Text, also as the bits of a TokenMask.
  const VocabularyTrie& trie() const { return trie_; }
  std::span<const std::uint64_t> text_tokens() const { return text_tokens_; }
  std::size_t held_bytes() const;

 private:
  explicit GrammarVocabulary(VocabularyTrie trie) : trie_(std::move(trie)) {}

  std::uint32_t row_size_ = 0;
  std::string texts_;                     // of all tokens, concatenated
  std::vector<std::uint32_t> text_ends_;  // by token
  std::vector<TokenId> end_of_generation_;
  std::unordered_map<std::string, TokenId> bracketed_;
  std::vector<std::uint64_t> named_tokens_;
  std::vector<std::uint64_t> text_tokens_;
  VocabularyTrie trie_;
};

}  // namespace kvd
