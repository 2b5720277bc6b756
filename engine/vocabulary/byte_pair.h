// Byte pair encoding: over the bytes of words, as gpt2, and over characters, as gemma4.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/merge_rules.h"
#include "engine/vocabulary/pretokenizers.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/word_splitter.h"

namespace kvd {

// The 256 printable characters with which byte-level BPE vocabularies write bytes (GPT-2,
// `bytes_to_unicode` of its encoder.py). A printable byte represents itself. The other bytes are
// represented by U+0100 and the following characters, in ascending order of the byte, so a space is
// U+0120. The functions below are pure functions over constants and may be called from any thread.

// The character of `byte`, as one or two bytes of UTF-8.
std::string_view ByteCharacter(std::uint8_t byte);

// Appends the bytes that `text` represents. A character that is not in the alphabet is appended
// unchanged.
void AppendDecodedBytes(std::string_view text, std::string& bytes);

// BytePair is the tokenizer of tokenizer.ggml.model "gpt2": byte-level BPE. BytePair splits the
// text into words and merges the bytes of each word pair by pair, in the order of the vocabulary's
// merges.
//
// A byte that is not part of well-formed UTF-8 is treated as one U+FFFD when the text is split, but
// is tokenized as itself, so that a text can be restored from its tokens (llama.cpp tokenizes the
// U+FFFD instead). A byte for which the vocabulary has no token is dropped, as in llama.cpp: some
// published vocabularies (Falcon, StarCoder) lack bytes that do not occur in their training text.
class BytePair final : public TextTokenizer {
 public:
  // Errors: as MergeRules::Create and WordSplitter::Create.
  static Result<std::unique_ptr<BytePair>> Create(const TokenTable& tokens,
                                                  std::span<const std::string> merges,
                                                  const Pretokenizer& pretokenizer);

  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  class Words;
  BytePair(const TokenTable& tokens, MergeRules rules, WordSplitter splitter, bool ignore_merges);

  const TokenTable& tokens_;
  MergeRules rules_;
  const WordSplitter splitter_;
  const bool ignore_merges_;
  std::array<std::int32_t, 256> byte_symbols_;
};

// CharacterPair is BPE over characters: the tokenizer of tokenizer.ggml.model "gemma4", and of
// "gpt2" and "whitespace" with a pre-tokenizer whose vocabulary does not use the byte alphabet.
// CharacterPair splits the text into words (lines, for most of these vocabularies) and merges the
// characters of each word pair by pair, in the order of the vocabulary's merges. Parts of a word
// that merge independently of each other are merged one by one (escaped_spaces.h), and a part
// that comes again is not merged again.
//
// With Spelling::kEscapedCharacters, a space is written as U+2581. A character that is no token
// becomes its bytes (tokens "<0x00>" to "<0xFF>"); a byte without a token is dropped, as in
// llama.cpp. A byte that is not part of well-formed UTF-8 is treated as one U+FFFD when the text is
// split, but is tokenized as itself (llama.cpp tokenizes the U+FFFD instead).
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
