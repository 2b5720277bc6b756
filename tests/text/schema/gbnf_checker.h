// GbnfChecker: reads a grammar, decides whether a text is in its language, and writes random texts
// of the language. It is independent of the engine's matcher: it computes sets of end offsets, over
// characters instead of bytes, and reads only what the converter of schemas writes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvd::test {

class GbnfChecker {
 public:
  // Errors: kInvalidArgument: the text is no grammar, a rule is missing or defined twice, or a rule
  // begins with itself.
  static Result<GbnfChecker> Create(std::string_view grammar);

  // Returns whether `text` is in the language of the rule. REQUIRES: the rule exists.
  bool Accepts(std::string_view rule, std::string_view text);
  // Returns whether `text` is the beginning of a text of the language, or a text of it. REQUIRES:
  // the rule exists.
  bool AcceptsPrefix(std::string_view rule, std::string_view text);
  // A random text of the rule. Choices become simple after about `length` characters. none: there
  // is no finite text. REQUIRES: the rule exists.
  std::optional<std::string> RandomText(std::string_view rule, std::mt19937_64& random,
                                        std::size_t length);

  bool HasRule(std::string_view name) const { return numbers_.contains(std::string(name)); }
  std::size_t rule_count() const { return bodies_.size(); }

 private:
  friend class GbnfCheckerReader;

  struct Node {
    enum class Kind : std::uint8_t { kClass, kRule, kSequence, kChoice, kRepeat };
    Kind kind = Kind::kSequence;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
    bool is_negated = false;
    std::size_t rule = 0;
    std::uint64_t min = 0;
    std::uint64_t max = 0;
    std::vector<Node> children;
    std::uint64_t cost = 0;  // characters of the shortest text
  };
  using Ends = std::set<std::size_t>;

  Status CheckLeftRecursion() const;
  bool MayBeEmpty(const Node& node, const std::vector<bool>& empty_rules) const;
  void CollectFirst(const Node& node, const std::vector<bool>& empty_rules,
                    std::set<std::size_t>& rules) const;
  void ComputeCosts();
  std::uint64_t CostOf(Node& node);
  static bool Contains(const Node& node, std::uint32_t character);
  Ends Match(const Node& node, std::size_t start);
  void Write(const Node& node, std::mt19937_64& random, std::size_t length,
             std::string& text) const;
  static void WriteCharacter(const Node& node, std::mt19937_64& random, std::string& text);

  std::map<std::string, std::size_t> numbers_;
  std::vector<Node> bodies_;
  std::vector<std::uint64_t> costs_;  // of the rules
  std::vector<std::uint32_t> text_;   // that is matched
  bool needs_more_ = false;           // a character was looked for at the end of the text
  std::map<std::pair<std::size_t, std::size_t>, Ends> known_;  // [rule, start]
};

}  // namespace kvd::test
