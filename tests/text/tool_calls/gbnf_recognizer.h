// GbnfRecognizer: a slow and simple recogniser for the part of GBNF that text/tool_calls writes.
//
// It is independent of the engine's: groups and repetitions become rules, and a text is read by all
// stacks of positions at once. Left recursion is not supported.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvd::test {

class GbnfRecognizer {
 public:
  // REQUIRES: a grammar without errors; a mistake fails the present test.
  explicit GbnfRecognizer(std::string_view gbnf);

  // Whether the text is a sentence. A text of `tokens` is one symbol wherever it occurs.
  bool Accepts(std::string_view text, const std::map<std::string, int>& tokens = {}) const;
  // The number of symbols that are the begin of a sentence; for messages.
  std::size_t AcceptedSymbols(std::string_view text,
                              const std::map<std::string, int>& tokens) const;

 private:
  enum class Kind : std::uint8_t { kEnd, kClass, kRule, kToken, kNotToken };
  struct Element {
    Kind kind = Kind::kEnd;
    bool is_negated = false;                    // of a class
    std::vector<std::pair<int, int>> ranges{};  // of a class
    std::size_t rule = 0;
    int token = 0;
  };
  using Sequence = std::vector<Element>;
  using Stack = std::vector<std::size_t>;  // positions in elements_, the next one last

  class Reader;

  std::size_t RuleOf(const std::string& name);
  std::size_t NewRule() {
    rules_.emplace_back();
    return rules_.size() - 1;
  }
  void AddAlternative(std::size_t rule, const Sequence& sequence);
  void Close(Stack stack, std::set<Stack>& stacks) const;
  std::set<Stack> Start() const;
  std::set<Stack> Step(const std::set<Stack>& stacks, int symbol) const;
  std::pair<std::size_t, bool> Read(std::string_view text,
                                    const std::map<std::string, int>& tokens) const;

  std::map<std::string, std::size_t> names_;
  std::vector<std::vector<std::size_t>> rules_;  // first positions of the alternatives
  std::vector<Element> elements_;
};

}  // namespace kvd::test
