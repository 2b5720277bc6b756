// Trains small vocabularies on texts with simple methods: frequent substrings become tokens. Equal
// texts give equal vocabularies.
#pragma once

#include <string>
#include <vector>

#include "engine/vocabulary/vocabulary_data.h"

namespace kvd::reference {

// "gpt2": starts with all bytes and repeatedly makes the most frequent pair of neighbouring tokens
// a token.
VocabularyData TrainBytePair(const std::vector<std::string>& texts);
// "t5": the substrings that cover the most bytes of the texts. The score of a token is the
// logarithm of its frequency. Rare characters are unknown.
VocabularyData TrainUnigram(const std::vector<std::string>& texts);
// "bert": the substrings at the start of words and those inside words that cover the most bytes.
// Rare characters are unknown.
VocabularyData TrainWordPiece(const std::vector<std::string>& texts);

}  // namespace kvd::reference
