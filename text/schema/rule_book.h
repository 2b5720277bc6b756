// RuleBook: the rules of one grammar, their unique names, and the grammar's text.
//
// The shared rules (value, string, number, ...) are added when they are first used. A rule may be
// referred to before it is defined.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "text/schema/expression.h"

namespace kvd::schema {

enum class SharedRule : std::uint8_t {
  kSpace,  // optional whitespace between tokens of JSON
  kValue,
  kObject,
  kArray,
  kString,
  kNumber,
  kInteger,
  kBoolean,
  kNull,
  kCharacter,  // one character of a string, escaped or not
  kWhole,      // digits of a whole number without a sign
};

// The greatest number of digits before the point, after the point, and of an exponent.
inline constexpr std::size_t kWholeDigitsMax = 16;
inline constexpr std::size_t kFractionDigitsMax = 16;
inline constexpr std::size_t kExponentDigitsMax = 2;

class RuleBook {
 public:
  // `rules_max`: Print fails above it; `text_bytes_max`: the same for the grammar's text.
  RuleBook(std::size_t rules_max, std::size_t text_bytes_max)
      : rules_max_(rules_max), text_bytes_max_(text_bytes_max) {}

  // Reserves a name: `hint` with only letters, digits and hyphens, and a number if it is taken.
  RuleId Declare(std::string_view hint);
  // Reserves exactly `name`. Errors: kInvalidArgument: other characters, or none; kExists.
  Result<RuleId> DeclareExactly(std::string_view name);
  void Define(RuleId rule, GrammarExpression expression);
  // Defines a rule by its text, in which every rule that it names is used.
  void DefineText(RuleId rule, std::string text);
  GrammarExpression Shared(SharedRule rule);
  // The rule that was remembered for `key`, an object that outlives the book; null: none.
  const RuleId* Remembered(const void* key) const;
  void Remember(const void* key, RuleId rule) { remembered_.emplace(key, rule); }

  // Returns whether a finite text exists for `rule`. REQUIRES: every rule is defined.
  bool IsProductive(RuleId rule);

  const std::string& name(RuleId rule) const { return rules_[rule].name; }
  std::size_t rule_count() const { return rules_.size(); }
  bool is_full() const { return rules_.size() > rules_max_; }
  std::size_t rules_max() const { return rules_max_; }
  // Removes the rules from number `rule_count` on.
  void Truncate(std::size_t rule_count);

  // Keeps `rule` and what it uses in the text, under its own name.
  void Keep(RuleId rule) { rules_[rule].is_kept = true; }
  // Returns the text: the kept rules, then those that they use, a line each. Alternatives without
  // a finite text are left out, and rules with equal bodies are one rule. Errors: kUnsupported: a
  // limit; the message names it.
  Result<std::string> Print();

 private:
  struct Rule {
    std::string name;
    GrammarExpression expression;
    std::string text;  // of DefineText
    bool is_text = false;
    bool is_kept = false;
    bool is_productive = false;
  };

  RuleId Add(std::string name);
  bool IsProductive(const GrammarExpression& expression) const;
  void FindProductive();
  GrammarExpression Pruned(const GrammarExpression& expression) const;

  std::size_t rules_max_;
  std::size_t text_bytes_max_;
  std::vector<Rule> rules_;
  std::unordered_map<std::string, RuleId> ids_;
  std::unordered_map<const void*, RuleId> remembered_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // the last one given to a hint
};

}  // namespace kvd::schema
