// The texts of tests/data/vocabulary, and the vocabularies with which they are tokenized.
//
// The file `texts` contains all texts, each followed by kTextEnd. NAME.gguf is a vocabulary,
// NAME.gguf.inp is a copy of `texts`, and NAME.gguf.out contains one line of token ids per text;
// kvd-golden reads these three files. The bundled model is in the folder models/ and has only an
// .out file here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "tests/reference/tokenizers.h"

namespace kvd::reference {

inline constexpr std::string_view kTextEnd = "\n__ggml_vocab_test__\n";

struct VocabularyFile {
  std::string name;
  std::string vocabulary_path;
  std::string tokens_path;
};

// Returns the vocabularies of the set in `folder` and the bundled model. The path of the bundled
// model is relative to the project's root.
std::vector<VocabularyFile> VocabularyFiles(const std::string& folder);

Result<std::vector<std::string>> ReadTexts(const std::string& path);
// Reads an .out file. Returns the token ids of each text.
Result<std::vector<Tokens>> ReadTokenLines(const std::string& path);
Result<VocabularyData> ReadVocabularyFile(const std::string& path);

// Trains the small vocabularies on FOLDER/texts and writes every file of the set.
Status WriteVocabularySet(const std::string& folder);

}  // namespace kvd::reference
