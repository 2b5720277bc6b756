// The parser makes a syntax tree of tokens, by recursive descent with one function per rule.
//
// parse_statements.cc has the rules of statements, parse_expressions.cc those of expressions, in
// the order of Jinja2's precedence.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

namespace kvd::jinja {

class Parser {
 public:
  static constexpr std::uint32_t kNestingMax = 200;  // of expressions, and of statements

  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Errors: kInvalidArgument with the place; kUnsupported: a statement that needs other templates,
  // or autoescape; kTooLarge: nested deeper than kNestingMax.
  Result<Body> ParseTemplate();

 private:
  enum class Conditionals : std::uint8_t { kAllowed, kExcluded };

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool Sees(TokenKind kind) const { return current().kind == kind; }
  bool SeesName(const char* name) const { return current().IsName(name); }
  void Advance() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool Skip(TokenKind kind);
  bool SkipName(const char* name);
  Status Expect(TokenKind kind, std::string_view what);
  Result<std::string> ExpectName();
  template <class... Parts>
  std::unexpected<Error> FailAt(const Place& place, Code code, const Parts&... parts) const;
  std::unexpected<Error> FailUnexpected(std::string_view wanted) const;

  // Statements.
  using EndTags = std::initializer_list<const char*>;
  Result<Body> ParseBody(EndTags end_tags);
  Result<Body> ParseBodyToEnd(const char* end_tag);
  Status ParseTag(Body* body);
  Result<StatementPtr> ParseStatement();
  Result<StatementPtr> ParseSet();
  Result<StatementPtr> ParseFor();
  Result<StatementPtr> ParseIf();
  Result<StatementPtr> ParseWith();
  Result<StatementPtr> ParseMacro();
  Result<StatementPtr> ParseCallBlock();
  Result<StatementPtr> ParseFilterBlock();
  Result<StatementPtr> ParseBlock();
  Result<StatementPtr> ParseGeneration();
  Result<StatementPtr> ParseAutoescape();
  Status ParsePrint(Body* body);
  Status ParseSignature(MacroFunction* function);

  // Expressions.
  Result<ExpressionPtr> ParseTuple(Conditionals conditionals = Conditionals::kAllowed,
                                   bool is_parenthesized = false);
  Result<ExpressionPtr> ParseExpression(Conditionals conditionals = Conditionals::kAllowed);
  Result<ExpressionPtr> ParseConditional();
  Result<ExpressionPtr> ParseOr();
  Result<ExpressionPtr> ParseAnd();
  Result<ExpressionPtr> ParseNot();
  Result<ExpressionPtr> ParseComparison();
  Result<ExpressionPtr> ParseSum();
  Result<ExpressionPtr> ParseConcatenation();
  Result<ExpressionPtr> ParseProduct();
  Result<ExpressionPtr> ParsePower();
  Result<ExpressionPtr> ParseUnary(bool with_filters);
  Result<ExpressionPtr> ParsePrimary();
  Result<ExpressionPtr> ParseList();
  Result<ExpressionPtr> ParseDict();
  Result<ExpressionPtr> ParsePostfix(ExpressionPtr subject);
  Result<ExpressionPtr> ParseFiltersAndTests(ExpressionPtr subject);
  Result<ExpressionPtr> ParseAttribute(ExpressionPtr object);
  Result<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  Result<ExpressionPtr> ParseSubscriptPart();
  Result<ExpressionPtr> ParseCall(ExpressionPtr callee);
  Result<ExpressionPtr> ParseFilters(ExpressionPtr subject, bool starts_inside);
  Result<ExpressionPtr> ParseTest(ExpressionPtr subject);
  Result<std::string> ParseDottedName();
  Result<CallArguments> ParseArguments();
  Status ParseArgument(CallArguments* arguments, const Place& place);
  bool IsTupleEnd() const;

  // Targets.
  Result<Target> ParseTarget();
  Result<Target> ParseNameTarget();
  Result<Target> ParseAssignmentTarget();

  // Sets the nesting of `expression` from that of its parts. Errors: kTooLarge.
  Status Nest(Expression* expression, std::initializer_list<const Expression*> parts) const;
  Status Nest(Expression* expression, const std::vector<ExpressionPtr>& parts) const;
  Status Nest(Expression* expression, const CallArguments& arguments) const;

  // Counts one level of recursion while it exists.
  class Level {
   public:
    explicit Level(std::uint32_t* level) : level_(level) { ++*level_; }
    ~Level() { --*level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    std::uint32_t* level_;
  };
  Status CheckLevel() const;

  const std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::uint32_t level_ = 0;
};

template <class... Parts>
std::unexpected<Error> Parser::FailAt(const Place& place, Code code, const Parts&... parts) const {
  return Fail(code,
              Concat("template line ", place.line, ", column ", place.column, ": ", parts...));
}

}  // namespace kvd::jinja
