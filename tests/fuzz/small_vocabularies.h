// Vocabularies of a few hundred tokens: one for each kind of tokenizer, and one for each way in
// which byte-level tokenizers split a text into words.
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

// Returns at most 64 vocabularies in a fixed order.
std::vector<SmallVocabulary> SmallVocabularies();

}  // namespace kvd::test
