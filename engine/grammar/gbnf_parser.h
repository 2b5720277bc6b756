// ParseGbnf: reads a grammar's text in GBNF, the format of llama.cpp (its grammars/README.md and
// src/llama-grammar.cpp of August 2026; docs/grammar.md says what differs).
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/work_control.h"
#include "engine/grammar/grammar_program.h"
#include "engine/grammar/grammar_vocabulary.h"

namespace kvd {

// Returns the program without what AnalyseProgram adds. `vocabulary` resolves token terminals.
// Errors: kInvalidArgument, with line and column: the text is not GBNF, a rule is not defined,
// there is no rule "root", a token is not in the vocabulary, bounds of a repetition are out of
// order or too large; kTooLarge: a limit, by its name; kCancelled.
Result<GrammarProgram> ParseGbnf(std::string_view text, const GrammarVocabulary& vocabulary,
                                 const GrammarLimits& limits, WorkControl& work);

}  // namespace kvd
