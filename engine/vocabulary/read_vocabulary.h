// Reads the vocabulary metadata of a GGUF file. ReadVocabulary does not validate the values;
// `Vocabulary::Create` validates them.
#pragma once

#include "base/error.h"
#include "engine/model/gguf_file.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd {

// Errors: kCorrupt: a key of the wrong type (the message names it). A missing key is not an error.
Result<VocabularyData> ReadVocabulary(const GgufFile& file);

}  // namespace kvd
