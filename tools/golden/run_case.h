// Runs golden folders and vocabulary cases on a backend, and templates, and compares the results.
#pragma once

#include <string>

#include "base/error.h"
#include "tools/golden/backend.h"
#include "tools/golden/golden_case.h"

namespace kvd::golden {

struct Tally {
  int passed = 0;
  int failed = 0;
};

// Runs the scenarios of a golden case and prints a line for each scenario: name, rows, largest and
// mean normalised mean squared error (NMSE), and "ok" or the failure.
void RunCase(const Case& golden, Backend& backend, Tally* tally);

// Tokenizes each text of PATH.inp with the vocabulary of the GGUF file PATH and compares with
// PATH.out.
void RunVocabulary(const std::string& path, Tally* tally);

// Renders FOLDER/template.jinja with the variables of each case of FOLDER/cases.json and compares
// the text, or that both are errors; the text of raise_exception() is compared, too.
void RunTemplate(const std::string& folder, Tally* tally);

}  // namespace kvd::golden
