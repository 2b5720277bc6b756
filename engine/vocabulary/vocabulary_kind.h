// VocabularyKind: which tokenizer a vocabulary has.
#pragma once

#include <string_view>

namespace kvd {

enum class VocabularyKind {
  kNone,
  kSentencePiece,
  kBytePair,
  kCharacterPair,
  kWordPiece,
  kUnigram,
  kReverseUnigram,
  kLongestMatch,
};

// "none", "sentencepiece", "byte_pair", "character_pair", "wordpiece", "unigram", "reverse_unigram"
// or "longest_match".
std::string_view VocabularyKindName(VocabularyKind kind);

}  // namespace kvd
