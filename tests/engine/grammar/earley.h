// A grammar as data, its text as GBNF, and a naive recogniser of it (Earley, "An efficient
// context-free parsing algorithm", 1970), for comparison with engine/grammar.
//
// The recogniser works on characters. The bytes of an incomplete last character are compared with
// the characters that the next terminals accept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kvd::test {

// The characters of a class, or all others.
struct EarleyClass {
  std::vector<std::uint32_t> codes;
  bool is_negated = false;
  bool Contains(std::uint32_t code) const;
  // Whether the class contains a character (no surrogate) from first to last.
  bool Overlaps(std::uint32_t first, std::uint32_t last) const;
};

// A node of a rule's right side.
struct EarleyNode {
  enum class Kind { kText, kClass, kRule, kSequence, kChoice, kRepeat };
  static constexpr int kNoMax = -1;

  Kind kind = Kind::kText;
  std::u32string text;            // kText
  EarleyClass characters;         // kClass
  std::size_t rule = 0;           // kRule
  std::vector<EarleyNode> parts;  // kSequence, kChoice; kRepeat: one part
  int min = 0;                    // kRepeat
  int max = kNoMax;
};

struct EarleyGrammar {
  std::vector<EarleyNode> rules;  // rule 0 is the root
  std::string ToGbnf() const;
};

// Returns a random grammar of a few rules over the characters a, b, U+00E8, U+00E9, U+4F60 and
// U+1F600. It may be left recursive.
EarleyGrammar RandomGrammar(std::mt19937_64& random);

class EarleyRecognizer {
 public:
  explicit EarleyRecognizer(const EarleyGrammar& grammar);

  // Whether a rule can begin with itself.
  bool IsLeftRecursive() const;
  // Whether the text so far, and with `bytes` after it, can be continued by the rules.
  bool IsViable(std::string_view bytes);
  // Appends bytes. REQUIRES: IsViable(bytes).
  void Append(std::string_view bytes);
  bool IsSentence() const;

 private:
  struct Symbol {
    bool is_rule = false;
    std::size_t index = 0;  // of the rule, or of the class
  };
  struct Production {
    std::size_t rule = 0;
    std::vector<Symbol> symbols;
  };
  struct Item {
    std::size_t production = 0;
    std::size_t dot = 0;
    std::size_t origin = 0;
    friend bool operator==(const Item&, const Item&) = default;
  };
  using Set = std::vector<Item>;

  std::size_t NewRule() { return rule_count_++; }
  Symbol SymbolOf(const EarleyNode& node);
  std::vector<Symbol> SymbolsOf(const EarleyNode& node);
  std::vector<bool> EmptyRules() const;
  const Symbol* NextOf(const Item& item) const;
  void Complete(Set& set, std::size_t number) const;
  bool CanRead(std::uint32_t first, std::uint32_t last) const;
  void Push(std::uint32_t code);
  // Reads `bytes` after tail_ up to the last character; returns whether that is possible, the bytes
  // of an incomplete last character, and the number of characters read.
  bool Read(std::string_view bytes, bool reads_last, std::string& tail, std::size_t& pushed);

  std::size_t named_rule_count_ = 0;
  std::size_t rule_count_ = 0;
  std::vector<Production> productions_;
  std::vector<EarleyClass> classes_;
  std::vector<Set> sets_;
  std::string tail_;  // bytes of an incomplete character
};

}  // namespace kvd::test
