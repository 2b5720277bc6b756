// From loose to tight: conditional, or, and, not, comparison, + and -, ~, * / // %, **, unary + and
// -, postfix, filters and tests. Unlike Python, ** groups from the left, and a sign binds tighter
// than **.
#include "text/jinja/builtins.h"
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

Result<ExpressionPtr> Parser::ParseTuple(Conditionals conditionals, const char* end_name,
                                         bool is_parenthesized) {
  const Place place = current().place;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    if (IsTupleEnd(end_name)) break;
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

bool Parser::IsTupleEnd(const char* end_name) const {
  return Sees(TokenKind::kPrintEnd) || Sees(TokenKind::kTagEnd) ||
         Sees(TokenKind::kRightParenthesis) || (end_name != nullptr && SeesName(end_name));
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

Result<ExpressionPtr> Parser::ParsePrimary() {
  const Token& token = current();
  auto constant = std::make_unique<Constant>(token.place);
  switch (token.kind) {
    case TokenKind::kName: {
      Advance();
      if (token.text == "true" || token.text == "True") {
        constant->value = Value::Bool(true);
      } else if (token.text == "false" || token.text == "False") {
        constant->value = Value::Bool(false);
      } else if (token.text == "none" || token.text == "None") {
        constant->value = Value::None();
      } else {
        auto name = std::make_unique<Name>(token.place);
        name->name = token.text;
        return name;
      }
      return constant;
    }
    case TokenKind::kString: {
      std::string text;
      for (; Sees(TokenKind::kString); Advance()) text += current().text;
      constant->value = Value::String(std::move(text));
      return constant;
    }
    case TokenKind::kInteger:
      Advance();
      constant->value = Value::Int(token.integer);
      return constant;
    case TokenKind::kFloat:
      Advance();
      constant->value = Value::Float(token.real);
      return constant;
    case TokenKind::kLeftParenthesis: {
      Advance();
      KVD_TRY(ExpressionPtr inner, ParseTuple(Conditionals::kAllowed, nullptr, true));
      KVD_CHECK_OK(Expect(TokenKind::kRightParenthesis, ")"));
      return inner;
    }
    case TokenKind::kLeftBracket: return ParseList();
    case TokenKind::kLeftBrace: return ParseDict();
    default: return FailUnexpected("an expression");
  }
}

Result<ExpressionPtr> Parser::ParseList() {
  auto list = std::make_unique<ListDisplay>(current().place);
  Advance();
  while (!Sees(TokenKind::kRightBracket)) {
    if (!list->items.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    if (Sees(TokenKind::kRightBracket)) break;
    KVD_TRY(ExpressionPtr item, ParseExpression());
    list->items.push_back(std::move(item));
  }
  Advance();
  KVD_CHECK_OK(Nest(list.get(), list->items));
  return list;
}

Result<ExpressionPtr> Parser::ParseDict() {
  auto dict = std::make_unique<DictDisplay>(current().place);
  Advance();
  while (!Sees(TokenKind::kRightBrace)) {
    if (!dict->items.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    if (Sees(TokenKind::kRightBrace)) break;
    KVD_TRY(ExpressionPtr key, ParseExpression());
    KVD_CHECK_OK(Expect(TokenKind::kColon, ":"));
    KVD_TRY(ExpressionPtr value, ParseExpression());
    KVD_CHECK_OK(Nest(dict.get(), {key.get(), value.get()}));
    dict->items.emplace_back(std::move(key), std::move(value));
  }
  Advance();
  return dict;
}

Result<ExpressionPtr> Parser::ParsePostfix(ExpressionPtr subject) {
  while (true) {
    if (Sees(TokenKind::kDot)) {
      KVD_TRY(subject, ParseAttribute(std::move(subject)));
    } else if (Sees(TokenKind::kLeftBracket)) {
      KVD_TRY(subject, ParseSubscript(std::move(subject)));
    } else if (Sees(TokenKind::kLeftParenthesis)) {
      KVD_TRY(subject, ParseCall(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExpressionPtr> Parser::ParseFiltersAndTests(ExpressionPtr subject) {
  while (true) {
    if (Sees(TokenKind::kPipe)) {
      KVD_TRY(subject, ParseFilters(std::move(subject), false));
    } else if (SeesName("is")) {
      KVD_TRY(subject, ParseTest(std::move(subject)));
    } else if (Sees(TokenKind::kLeftParenthesis)) {
      KVD_TRY(subject, ParseCall(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExpressionPtr> Parser::ParseAttribute(ExpressionPtr object) {
  const Place place = current().place;
  Advance();
  const Token& token = current();
  if (token.kind == TokenKind::kInteger) {
    auto item = std::make_unique<Item>(place);
    auto index = std::make_unique<Constant>(token.place);
    index->value = Value::Int(token.integer);
    Advance();
    item->object = std::move(object);
    item->index = std::move(index);
    KVD_CHECK_OK(Nest(item.get(), {item->object.get()}));
    return item;
  }
  if (token.kind != TokenKind::kName) return FailUnexpected("a name or a number");
  auto attribute = std::make_unique<Attribute>(place);
  attribute->name = Value::String(token.text);
  Advance();
  attribute->object = std::move(object);
  KVD_CHECK_OK(Nest(attribute.get(), {attribute->object.get()}));
  return attribute;
}

Result<ExpressionPtr> Parser::ParseSubscript(ExpressionPtr object) {
  auto item = std::make_unique<Item>(current().place);
  Advance();
  std::vector<ExpressionPtr> parts;
  while (!Sees(TokenKind::kRightBracket)) {
    if (!parts.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    KVD_TRY(ExpressionPtr part, ParseSubscriptPart());
    parts.push_back(std::move(part));
  }
  Advance();
  item->object = std::move(object);
  if (parts.size() == 1) {
    item->index = std::move(parts[0]);
  } else {
    auto tuple = std::make_unique<TupleDisplay>(item->place);
    for (const ExpressionPtr& part : parts) {
      if (part->kind == ExpressionKind::kSlice) {
        return FailAt(part->place, Code::kInvalidArgument, "a slice must be the only subscript");
      }
    }
    KVD_CHECK_OK(Nest(tuple.get(), parts));
    tuple->items = std::move(parts);
    item->index = std::move(tuple);
  }
  KVD_CHECK_OK(Nest(item.get(), {item->object.get(), item->index.get()}));
  return item;
}

Result<ExpressionPtr> Parser::ParseSubscriptPart() {
  auto slice = std::make_unique<Slice>(current().place);
  if (!Sees(TokenKind::kColon)) {
    KVD_TRY(ExpressionPtr start, ParseExpression());
    if (!Sees(TokenKind::kColon)) return start;
    slice->start = std::move(start);
  }
  Advance();
  const auto is_part_end = [this] {
    return Sees(TokenKind::kRightBracket) || Sees(TokenKind::kComma);
  };
  if (!Sees(TokenKind::kColon) && !is_part_end()) {
    KVD_TRY(slice->stop, ParseExpression());
  }
  if (Skip(TokenKind::kColon) && !is_part_end()) {
    KVD_TRY(slice->step, ParseExpression());
  }
  KVD_CHECK_OK(Nest(slice.get(), {slice->start.get(), slice->stop.get(), slice->step.get()}));
  return slice;
}

Result<ExpressionPtr> Parser::ParseCall(ExpressionPtr callee) {
  auto call = std::make_unique<CallExpression>(current().place);
  KVD_TRY(call->arguments, ParseArguments());
  call->callee = std::move(callee);
  KVD_CHECK_OK(Nest(call.get(), {call->callee.get()}));
  KVD_CHECK_OK(Nest(call.get(), call->arguments));
  return call;
}

Result<CallArguments> Parser::ParseArguments() {
  const Place place = current().place;
  KVD_CHECK_OK(Expect(TokenKind::kLeftParenthesis, "("));
  CallArguments arguments;
  bool needs_comma = false;
  while (!Sees(TokenKind::kRightParenthesis)) {
    if (needs_comma) {
      KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
      if (Sees(TokenKind::kRightParenthesis)) break;
    }
    KVD_CHECK_OK(ParseArgument(&arguments, place));
    needs_comma = true;
  }
  Advance();
  return arguments;
}

Status Parser::ParseArgument(CallArguments* arguments, const Place& place) {
  const auto refuse = [&] {
    return FailAt(place, Code::kInvalidArgument, "invalid syntax for function call expression");
  };
  if (Skip(TokenKind::kMultiply)) {
    if (arguments->more_positional != nullptr || arguments->more_named != nullptr) return refuse();
    KVD_TRY(arguments->more_positional, ParseExpression());
    return {};
  }
  if (Skip(TokenKind::kPower)) {
    if (arguments->more_named != nullptr) return refuse();
    KVD_TRY(arguments->more_named, ParseExpression());
    return {};
  }
  if (Sees(TokenKind::kName) && next().kind == TokenKind::kAssign) {
    if (arguments->more_named != nullptr) return refuse();
    const std::string name = current().text;
    for (const auto& [other, value] : arguments->named) {
      if (other.view() == name) {
        return FailAt(current().place, Code::kInvalidArgument, "keyword argument repeated: ", name);
      }
    }
    Advance();
    Advance();
    KVD_TRY(ExpressionPtr value, ParseExpression());
    arguments->named.emplace_back(Value::String(name), std::move(value));
    return {};
  }
  if (arguments->more_positional != nullptr || arguments->more_named != nullptr ||
      !arguments->named.empty()) {
    return refuse();
  }
  KVD_TRY(ExpressionPtr value, ParseExpression());
  arguments->positional.push_back(std::move(value));
  return {};
}

Result<std::string> Parser::ParseDottedName() {
  KVD_TRY(std::string name, ExpectName());
  while (Skip(TokenKind::kDot)) {
    KVD_TRY(const std::string part, ExpectName());
    name += "." + part;
  }
  return name;
}

Result<ExpressionPtr> Parser::ParseFilters(ExpressionPtr subject, bool starts_inside) {
  while (starts_inside || Skip(TokenKind::kPipe)) {
    starts_inside = false;
    auto filter = std::make_unique<FilterExpression>(current().place);
    KVD_TRY(filter->name, ParseDottedName());
    filter->filter = FindFilter(filter->name);
    if (Sees(TokenKind::kLeftParenthesis)) {
      KVD_TRY(filter->arguments, ParseArguments());
    }
    filter->subject = std::move(subject);
    KVD_CHECK_OK(Nest(filter.get(), {filter->subject.get()}));
    KVD_CHECK_OK(Nest(filter.get(), filter->arguments));
    subject = std::move(filter);
  }
  return subject;
}

Result<ExpressionPtr> Parser::ParseTest(ExpressionPtr subject) {
  const Place place = current().place;
  Advance();
  const bool is_negated = SkipName("not");
  auto test = std::make_unique<TestExpression>(current().place);
  KVD_TRY(test->name, ParseDottedName());
  test->test = FindTest(test->name);
  const TokenKind kind = current().kind;
  const bool begins_operand = kind == TokenKind::kName || kind == TokenKind::kString ||
                              kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
                              kind == TokenKind::kLeftBracket || kind == TokenKind::kLeftBrace;
  if (kind == TokenKind::kLeftParenthesis) {
    KVD_TRY(test->arguments, ParseArguments());
  } else if (begins_operand && !SeesName("else") && !SeesName("or") && !SeesName("and")) {
    if (SeesName("is")) {
      return FailAt(current().place, Code::kInvalidArgument, "tests cannot be chained with is");
    }
    const Level level(&level_);
    KVD_CHECK_OK(CheckLevel());
    KVD_TRY(ExpressionPtr operand, ParsePrimary());
    KVD_TRY(operand, ParsePostfix(std::move(operand)));
    test->arguments.positional.push_back(std::move(operand));
  }
  test->subject = std::move(subject);
  KVD_CHECK_OK(Nest(test.get(), {test->subject.get()}));
  KVD_CHECK_OK(Nest(test.get(), test->arguments));
  if (!is_negated) return test;
  auto negation = std::make_unique<Unary>(place);
  KVD_CHECK_OK(Nest(negation.get(), {test.get()}));
  negation->operand = std::move(test);
  return negation;
}

Status Parser::Nest(Expression* expression, std::initializer_list<const Expression*> parts) const {
  for (const Expression* part : parts) {
    if (part == nullptr) continue;
    expression->nesting = std::max(expression->nesting, part->nesting + 1);
  }
  if (expression->nesting <= kNestingMax) return {};
  return FailAt(expression->place, Code::kNoSpace, "nested deeper than ", kNestingMax, " levels");
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
  return FailAt(current().place, Code::kNoSpace, "nested deeper than ", kNestingMax, " levels");
}

}  // namespace kvd::jinja
