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
#pragma once

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

}  // namespace kvd
