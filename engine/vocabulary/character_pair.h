// CharacterPair is BPE over characters: the tokenizer of tokenizer.ggml.model "gemma4", and of
// "gpt2" and "whitespace" with a pre-tokenizer whose vocabulary does not use the byte alphabet.
// CharacterPair splits the text into words (lines, for most of these vocabularies) and merges the
// characters of each word pair by pair, in the order of the vocabulary's merges. Parts of a word
// that merge independently of each other are merged one by one (space_boundaries.h), and a part
// that comes again is not merged again.
//
// With Spelling::kEscapedCharacters, a space is written as U+2581. A character that is no token
// becomes its bytes (tokens "<0x00>" to "<0xFF>"); a byte without a token is dropped, as in
// llama.cpp. A byte that is not part of well-formed UTF-8 is treated as one U+FFFD when the text is
// split, but is tokenized as itself (llama.cpp tokenizes the U+FFFD instead).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/merge_rules.h"
#include "engine/vocabulary/pretokenizers.h"
#include "engine/vocabulary/space_boundaries.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/word_splitter.h"

namespace kvd {

class CharacterPair final : public TextTokenizer {
 public:
  // Errors: as MergeRules::Create and WordSplitter::Create. REQUIRES: `pretokenizer` is constant
  // data (pretokenizers.h).
  static Result<std::unique_ptr<CharacterPair>> Create(const TokenTable& tokens,
                                                       std::span<const std::string> merges,
                                                       const Pretokenizer& pretokenizer);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  CharacterPair(const TokenTable& tokens, MergeRules rules, WordSplitter splitter,
                SpaceBoundaries boundaries, const Pretokenizer& pretokenizer)
      : tokens_(tokens),
        rules_(std::move(rules)),
        splitter_(std::move(splitter)),
        boundaries_(std::move(boundaries)),
        pretokenizer_(pretokenizer) {}

  bool IsTakenWhole(std::string_view word) const;

  const TokenTable& tokens_;
  const MergeRules rules_;
  const WordSplitter splitter_;
  const SpaceBoundaries boundaries_;
  const Pretokenizer& pretokenizer_;
};

}  // namespace kvd
