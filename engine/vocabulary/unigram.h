// Unigram tokenizers, which find the tokens with the best sum of scores: from left to right, as t5,
// and from right to left, as plamo2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/precompiled_charsmap.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

// Unigram is the tokenizer of tokenizer.ggml.model "t5": SentencePiece's unigram model. The
// tokenizer cuts the normalised text into the sequence of tokens with the greatest sum of scores.
//
// Normalisation applies the rules of the file's precompiled_charsmap and replaces bytes that are
// not part of a character by U+FFFD and spaces by U+2581. Depending on the model file, runs of
// spaces become one space, and a space is put before the first word. A character that is not a
// token may become an unknown token, with the lowest score of the vocabulary minus 10. Adjacent
// unknown tokens are merged into one.
//
// Vocabulary has already cut the text at user-defined tokens, but normalisation may make the text
// of one: user-defined tokens take part in the search with score 0. Text that is the beginning of a
// user-defined token is not normalised.
struct UnigramOptions {
  bool add_space_prefix = false;
  bool remove_extra_whitespaces = false;
};

class Unigram final : public TextTokenizer {
 public:
  // Limit on one text after normalisation. The search needs 16 bytes of memory per byte of text.
  static constexpr std::size_t kNormalizedBytesMax = std::size_t{32} << 20;

  // `unk`: the unknown token; kNoToken: the vocabulary has none, and unknown characters are
  // dropped. Without `charsmap`, characters are not replaced. Errors: as TokenTrie::Create.
  static Result<std::unique_ptr<Unigram>> Create(const TokenTable& tokens, TokenId unk,
                                                 std::optional<PrecompiledCharsmap> charsmap,
                                                 UnigramOptions options);

  // Errors: kInvalidArgument: the normalised text is longer than kNormalizedBytesMax; kCancelled.
  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  Unigram(const TokenTable& tokens, TokenTrie trie, TokenTrie kept, TokenId unk,
          std::optional<PrecompiledCharsmap> charsmap, UnigramOptions options);

  Result<std::string> Normalize(std::string_view text, WorkMeter& meter) const;
  // The bytes of the longest beginning of a user-defined token that `text` begins with.
  std::size_t KeptBytes(std::string_view text) const;

  const TokenTrie trie_;
  const TokenTrie kept_;  // the user-defined tokens
  const TokenId unk_;
  const std::optional<PrecompiledCharsmap> charsmap_;
  const UnigramOptions options_;
  std::vector<float> scores_;  // by token
  double unknown_score_;
};

// ReverseUnigram is the tokenizer of tokenizer.ggml.model "plamo2": the sequence of tokens with the
// greatest sum of scores, searched from the end of the text.
//
// Scores count in steps of 1/10,000. Between sequences of equal sums, the longer token is used. A
// character that no token covers costs 1,000 and becomes its bytes' tokens. Tokens of any type but
// byte take part; a token with a score of -2,000 or less does not. A token with a score of exactly
// -1,000 is used by converted files as a mark, and ends the search for shorter tokens, as
// llama.cpp's table does (`Advance`). A U+FEFF at the start of a text is dropped. A byte that is
// not part of well-formed UTF-8 becomes its token (llama.cpp tokenizes U+FFFD instead).
class ReverseUnigram final : public TextTokenizer {
 public:
  // Errors: kCorrupt: a byte without a token; as TokenTrie::Create.
  static Result<std::unique_ptr<ReverseUnigram>> Create(const TokenTable& tokens);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  // The longest beginning of the rest of the text that some token ends with: a node of the trie.
  using State = std::uint32_t;
  struct Step;

  explicit ReverseUnigram(TokenTrie trie) : trie_(std::move(trie)) {}

  void SetCosts(const TokenTable& tokens);
  void LinkNodes();
  State Descend(State state, std::string_view character) const;
  State Advance(State state, std::string_view character) const;
  bool IsMark(State state) const { return costs_[state] == kUnknownCost; }
  Status Search(std::string_view text, std::vector<Step>& best, WorkMeter& meter) const;

  static constexpr std::int32_t kUnknownCost = 10'000'000;
  static constexpr std::int32_t kNoCost = 20'000'000;  // from here on, a token does not take part

  // The texts of the tokens, their characters in reverse order.
  const TokenTrie trie_;
  ByteTokens byte_tokens_;
  // By node of the trie: the cost and the bytes of the token that ends there (kNoCost and 0 without
  // one), and the node of the longest beginning of the node's text that is shorter and also a node.
  std::vector<std::int32_t> costs_;
  std::vector<std::uint16_t> text_bytes_;
  std::vector<State> shorter_;
};

}  // namespace kvd
