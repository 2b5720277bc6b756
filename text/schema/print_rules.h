// Prints the rules of a grammar as GBNF.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/schema/expression.h"

namespace kvd::schema {

struct PrintedRule {
  std::string name;
  Expression expression;
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
