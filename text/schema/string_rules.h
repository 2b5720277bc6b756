// Sets of strings as expressions over their JSON text.
//
// In a string with a limit on its characters alone, a character may be written raw or as any
// escape. Where a pattern or a name is matched, each character has one text: raw, or escaped where
// JSON demands an escape.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "text/schema/automaton.h"
#include "text/schema/expression.h"
#include "text/schema/rule_book.h"

namespace kvd::schema {

// One character of `set` inside a string.
GrammarExpression CharacterText(const CodePointSet& set, RuleBook& book);

// The text of exactly `bytes` (valid UTF-8), with quotes.
std::string QuotedText(std::string_view bytes);

// Strings, with quotes, from `length_min` to `length_max` characters.
GrammarExpression StringOfLength(std::uint64_t length_min, std::optional<std::uint64_t> length_max,
                                 RuleBook& book);

// The strings of a constraint, with quotes. `hint` names the rules that are needed. Errors:
// kUnsupported: a limit of the automaton.
Result<GrammarExpression> StringOf(const TextConstraint& constraint, std::string_view hint,
                                   RuleBook& book, const AutomatonLimits& limits = {});

}  // namespace kvd::schema
