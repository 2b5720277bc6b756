// The tightest expressions: literals, names, lists and dicts, and what follows them: attributes,
// subscripts, calls, filters and tests.
#include "text/jinja/builtins.h"
#include "text/jinja/parser.h"

namespace kvd::jinja {

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
      KVD_TRY(ExpressionPtr inner, ParseTuple(Conditionals::kAllowed, true));
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

}  // namespace kvd::jinja
