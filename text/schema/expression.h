// GrammarExpression: the right side of a grammar's rule as a tree, before it is printed as GBNF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/schema/code_point_set.h"

namespace kvd::schema {

using RuleId = std::uint32_t;

struct GrammarExpression {
  enum class Kind : std::uint8_t {
    kLiteral,   // the bytes of `text`
    kClass,     // one character of a class; `text` is the class as GBNF writes it
    kRule,      // the rule `rule`
    kSequence,  // all parts in this order; none: the empty text
    kChoice,    // one of the parts; none: no text at all
    kRepeat,    // the only part, `min` to `max` times
  };

  Kind kind = Kind::kSequence;
  std::string text;
  RuleId rule = 0;
  std::uint64_t min = 0;
  std::optional<std::uint64_t> max;
  std::vector<GrammarExpression> parts;

  bool is_empty() const { return kind == Kind::kSequence && parts.empty(); }
  bool is_nothing() const { return kind == Kind::kChoice && parts.empty(); }
  bool operator==(const GrammarExpression&) const = default;
};

// Makers. They keep expressions small: literals in a sequence are joined, sequences in sequences
// and choices in choices are flattened, and equal literals and rules are alternatives once.
GrammarExpression Literal(std::string bytes);
// REQUIRES: the set is not empty. The class is one of characters of the grammar's text.
GrammarExpression ClassOf(const CodePointSet& set);
GrammarExpression Reference(RuleId rule);
GrammarExpression Sequence(std::vector<GrammarExpression> parts);
GrammarExpression Choice(std::vector<GrammarExpression> parts);
GrammarExpression Repeat(GrammarExpression part, std::uint64_t min,
                         std::optional<std::uint64_t> max);
GrammarExpression Optional(GrammarExpression part);
GrammarExpression Nothing();

// Appends `bytes` as a literal of GBNF, in quotes.
void AppendLiteral(std::string_view bytes, std::string& text);

// Prints the rules of a grammar as GBNF.
struct PrintedRule {
  std::string name;
  GrammarExpression expression;
  std::string text;  // instead of the expression, if is_text
  bool is_text = false;
  bool is_kept = false;      // printed even if no rule uses it
  std::vector<RuleId> uses;  // of a text
};

// Rules are numbered by their place. A rule that is only another rule, and a rule whose body equals
// that of another rule, is replaced by the other one where it is used.
void MergeEqualRules(std::vector<PrintedRule>& rules);

// Returns a line for each kept rule and each rule that a printed one uses. Errors: kUnsupported: a
// limit is exceeded; the message names it.
Result<std::string> PrintRules(const std::vector<PrintedRule>& rules, std::size_t rules_max,
                               std::size_t text_bytes_max);

}  // namespace kvd::schema
