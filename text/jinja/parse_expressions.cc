// From loose to tight: conditional, or, and, not, comparison, + and -, ~, * / // %, **, unary + and
// -, postfix, filters and tests. Unlike Python, ** groups from the left, and a sign binds tighter
// than **.
#include "text/jinja/parser.h"

namespace kvd::jinja {
namespace {

std::optional<BinaryOperator> SumOperator(TokenKind kind) {
  if (kind == TokenKind::kAdd) return BinaryOperator::kAdd;
  if (kind == TokenKind::kSubtract) return BinaryOperator::kSubtract;
  return std::nullopt;
}

std::optional<BinaryOperator> ProductOperator(TokenKind kind) {
  switch (kind) {
    case TokenKind::kMultiply: return BinaryOperator::kMultiply;
    case TokenKind::kDivide: return BinaryOperator::kDivide;
    case TokenKind::kFloorDivide: return BinaryOperator::kFloorDivide;
    case TokenKind::kModulo: return BinaryOperator::kModulo;
    default: return std::nullopt;
  }
}

std::optional<ComparisonOperator> OrderOperator(TokenKind kind) {
  switch (kind) {
    case TokenKind::kEqual: return ComparisonOperator::kEqual;
    case TokenKind::kNotEqual: return ComparisonOperator::kNotEqual;
    case TokenKind::kLess: return ComparisonOperator::kLess;
    case TokenKind::kLessEqual: return ComparisonOperator::kLessEqual;
    case TokenKind::kGreater: return ComparisonOperator::kGreater;
    case TokenKind::kGreaterEqual: return ComparisonOperator::kGreaterEqual;
    default: return std::nullopt;
  }
}

}  // namespace

Result<ExpressionPtr> Parser::ParseTuple(Conditionals conditionals, bool is_parenthesized) {
  const Place place = current().place;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    if (IsTupleEnd()) break;
    KVD_TRY(ExpressionPtr item, ParseExpression(conditionals));
    items.push_back(std::move(item));
    if (!Sees(TokenKind::kComma)) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!is_parenthesized) return FailUnexpected("an expression");
  }
  auto tuple = std::make_unique<TupleDisplay>(place);
  KVD_CHECK_OK(Nest(tuple.get(), items));
  tuple->items = std::move(items);
  return tuple;
}

bool Parser::IsTupleEnd() const {
  return Sees(TokenKind::kPrintEnd) || Sees(TokenKind::kTagEnd) ||
         Sees(TokenKind::kRightParenthesis);
}

Result<ExpressionPtr> Parser::ParseExpression(Conditionals conditionals) {
  const Level level(&level_);
  KVD_CHECK_OK(CheckLevel());
  return conditionals == Conditionals::kAllowed ? ParseConditional() : ParseOr();
}

Result<ExpressionPtr> Parser::ParseConditional() {
  const Level level(&level_);
  KVD_CHECK_OK(CheckLevel());
  KVD_TRY(ExpressionPtr then, ParseOr());
  while (SeesName("if")) {
    auto conditional = std::make_unique<Conditional>(current().place);
    Advance();
    KVD_TRY(conditional->test, ParseOr());
    if (SkipName("else")) {
      KVD_TRY(conditional->otherwise, ParseConditional());
    }
    conditional->then = std::move(then);
    KVD_CHECK_OK(Nest(conditional.get(), {conditional->test.get(), conditional->then.get(),
                                          conditional->otherwise.get()}));
    then = std::move(conditional);
  }
  return then;
}

Result<ExpressionPtr> Parser::ParseOr() {
  KVD_TRY(ExpressionPtr left, ParseAnd());
  while (SeesName("or")) {
    auto logical = std::make_unique<Logical>(current().place);
    Advance();
    KVD_TRY(logical->right, ParseAnd());
    logical->left = std::move(left);
    KVD_CHECK_OK(Nest(logical.get(), {logical->left.get(), logical->right.get()}));
    left = std::move(logical);
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseAnd() {
  KVD_TRY(ExpressionPtr left, ParseNot());
  while (SeesName("and")) {
    auto logical = std::make_unique<Logical>(current().place);
    logical->is_and = true;
    Advance();
    KVD_TRY(logical->right, ParseNot());
    logical->left = std::move(left);
    KVD_CHECK_OK(Nest(logical.get(), {logical->left.get(), logical->right.get()}));
    left = std::move(logical);
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseNot() {
  if (!SeesName("not")) return ParseComparison();
  const Level level(&level_);
  KVD_CHECK_OK(CheckLevel());
  auto negation = std::make_unique<Unary>(current().place);
  Advance();
  KVD_TRY(negation->operand, ParseNot());
  KVD_CHECK_OK(Nest(negation.get(), {negation->operand.get()}));
  return negation;
}

Result<ExpressionPtr> Parser::ParseComparison() {
  KVD_TRY(ExpressionPtr first, ParseSum());
  auto comparison = std::make_unique<Comparison>(current().place);
  while (true) {
    std::optional<ComparisonOperator> op = OrderOperator(current().kind);
    if (op) {
      Advance();
    } else if (SkipName("in")) {
      op = ComparisonOperator::kIn;
    } else if (SeesName("not") && next().IsName("in")) {
      Advance();
      Advance();
      op = ComparisonOperator::kNotIn;
    } else {
      break;
    }
    KVD_TRY(ExpressionPtr other, ParseSum());
    KVD_CHECK_OK(Nest(comparison.get(), {other.get()}));
    comparison->others.emplace_back(*op, std::move(other));
  }
  if (comparison->others.empty()) return first;
  KVD_CHECK_OK(Nest(comparison.get(), {first.get()}));
  comparison->first = std::move(first);
  return comparison;
}

Result<ExpressionPtr> Parser::ParseSum() {
  KVD_TRY(ExpressionPtr left, ParseConcatenation());
  while (const std::optional<BinaryOperator> op = SumOperator(current().kind)) {
    auto binary = std::make_unique<Binary>(current().place);
    binary->op = *op;
    Advance();
    KVD_TRY(binary->right, ParseConcatenation());
    binary->left = std::move(left);
    KVD_CHECK_OK(Nest(binary.get(), {binary->left.get(), binary->right.get()}));
    left = std::move(binary);
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseConcatenation() {
  KVD_TRY(ExpressionPtr first, ParseProduct());
  if (!Sees(TokenKind::kTilde)) return first;
  auto concatenation = std::make_unique<Concatenation>(current().place);
  concatenation->parts.push_back(std::move(first));
  while (Skip(TokenKind::kTilde)) {
    KVD_TRY(ExpressionPtr part, ParseProduct());
    concatenation->parts.push_back(std::move(part));
  }
  KVD_CHECK_OK(Nest(concatenation.get(), concatenation->parts));
  return concatenation;
}

Result<ExpressionPtr> Parser::ParseProduct() {
  KVD_TRY(ExpressionPtr left, ParsePower());
  while (const std::optional<BinaryOperator> op = ProductOperator(current().kind)) {
    auto binary = std::make_unique<Binary>(current().place);
    binary->op = *op;
    Advance();
    KVD_TRY(binary->right, ParsePower());
    binary->left = std::move(left);
    KVD_CHECK_OK(Nest(binary.get(), {binary->left.get(), binary->right.get()}));
    left = std::move(binary);
  }
  return left;
}

Result<ExpressionPtr> Parser::ParsePower() {
  KVD_TRY(ExpressionPtr left, ParseUnary(true));
  while (Sees(TokenKind::kPower)) {
    auto binary = std::make_unique<Binary>(current().place);
    binary->op = BinaryOperator::kPower;
    Advance();
    KVD_TRY(binary->right, ParseUnary(true));
    binary->left = std::move(left);
    KVD_CHECK_OK(Nest(binary.get(), {binary->left.get(), binary->right.get()}));
    left = std::move(binary);
  }
  return left;
}

Result<ExpressionPtr> Parser::ParseUnary(bool with_filters) {
  const Level level(&level_);
  KVD_CHECK_OK(CheckLevel());
  ExpressionPtr expression;
  if (Sees(TokenKind::kSubtract) || Sees(TokenKind::kAdd)) {
    auto unary = std::make_unique<Unary>(current().place);
    unary->op = Sees(TokenKind::kSubtract) ? UnaryOperator::kNegate : UnaryOperator::kPlus;
    Advance();
    KVD_TRY(unary->operand, ParseUnary(false));
    KVD_CHECK_OK(Nest(unary.get(), {unary->operand.get()}));
    expression = std::move(unary);
  } else {
    KVD_TRY(expression, ParsePrimary());
  }
  KVD_TRY(expression, ParsePostfix(std::move(expression)));
  return with_filters ? ParseFiltersAndTests(std::move(expression)) : std::move(expression);
}

Status Parser::Nest(Expression* expression, std::initializer_list<const Expression*> parts) const {
  for (const Expression* part : parts) {
    if (part == nullptr) continue;
    expression->nesting = std::max(expression->nesting, part->nesting + 1);
  }
  if (expression->nesting <= kNestingMax) return {};
  return FailAt(expression->place, Code::kTooLarge, "nested deeper than ", kNestingMax, " levels");
}

Status Parser::Nest(Expression* expression, const std::vector<ExpressionPtr>& parts) const {
  for (const ExpressionPtr& part : parts) KVD_CHECK_OK(Nest(expression, {part.get()}));
  return {};
}

Status Parser::Nest(Expression* expression, const CallArguments& arguments) const {
  KVD_CHECK_OK(Nest(expression, arguments.positional));
  for (const auto& [name, value] : arguments.named) KVD_CHECK_OK(Nest(expression, {value.get()}));
  return Nest(expression, {arguments.more_positional.get(), arguments.more_named.get()});
}

Status Parser::CheckLevel() const {
  // An expression in brackets takes up to three levels of recursion.
  if (level_ <= 3 * kNestingMax) return {};
  return FailAt(current().place, Code::kTooLarge, "nested deeper than ", kNestingMax, " levels");
}

}  // namespace kvd::jinja
