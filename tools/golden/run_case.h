// Runs golden folders and vocabulary cases against a backend and compares.
#pragma once

#include <string>

#include "shm/error.h"
#include "tools/golden/backend.h"
#include "tools/golden/golden_case.h"

namespace kvd::golden {

struct Tally {
  int passed = 0;
  int failed = 0;
};

// Prints a line per scenario: name, rows, worst and mean NMSE, ok or what failed.
void RunCase(const Case& golden, Backend& backend, Tally* tally);

// Tokenizes each text of PATH.inp with the vocabulary of the GGUF file PATH and compares with
// PATH.out.
void RunVocabulary(const std::string& path, Tally* tally);

}  // namespace kvd::golden
