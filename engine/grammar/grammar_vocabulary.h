// GrammarVocabulary: what grammars need of a model's vocabulary.
//
// Built once for a model, immutable, shared by all grammars and threads. It keeps no reference to
// the Vocabulary.
#pragma once

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
#include "engine/grammar/vocabulary_trie.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

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
