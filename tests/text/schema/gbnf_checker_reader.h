// Reads a grammar for GbnfChecker.
#pragma once

#include <string>
#include <string_view>

#include "tests/text/schema/gbnf_checker.h"

namespace kvd::test {

class GbnfCheckerReader {
 public:
  GbnfCheckerReader(std::string_view text, GbnfChecker& checker) : text_(text), checker_(checker) {}

  // A line for each rule: "name ::= body".
  Status Read();

 private:
  using Node = GbnfChecker::Node;

  Status ReadLine(std::string_view line);
  Result<Node> ReadChoice();
  Result<Node> ReadSequence();
  Result<Node> ReadItem();
  Result<Node> ReadLiteral();
  Result<Node> ReadClass();
  Result<Node> ReadRepeat(Node item);
  Result<std::uint64_t> ReadNumber();
  Result<std::uint32_t> ReadCharacter();
  std::string ReadName();
  std::size_t NumberOf(const std::string& name);

  bool AtEnd() const { return offset_ >= line_.size(); }
  char Peek() const { return AtEnd() ? '\0' : line_[offset_]; }
  bool Take(char byte);
  void SkipSpaces();
  std::unexpected<Error> Refuse(std::string_view what) const;

  std::string_view text_;
  GbnfChecker& checker_;
  std::string_view line_;
  std::size_t offset_ = 0;
  std::vector<bool> is_defined_;
};

}  // namespace kvd::test
