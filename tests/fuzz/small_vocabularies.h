// Vocabularies of a few hundred tokens, one of each kind of tokenizer and of each way in which
// byte-level ones split a text into words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/vocabulary/vocabulary.h"

namespace kvd::test {

struct SmallVocabulary {
  std::string name;
  VocabularyData data;
};

// In a fixed order; at most 64.
std::vector<SmallVocabulary> SmallVocabularies();

}  // namespace kvd::test
