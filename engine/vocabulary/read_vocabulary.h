// Reads what a GGUF file says about its vocabulary. The values are passed on as they are;
// `Vocabulary::Create` judges them.
#pragma once

#include "engine/gguf_file.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "shm/error.h"

namespace kvd {

// kCorrupt: a key of the wrong type (the message names it). A missing key is no error here.
Result<VocabularyData> ReadVocabulary(const GgufFile& file);

}  // namespace kvd
