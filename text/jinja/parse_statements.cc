#include <algorithm>
#include <array>

#include "text/characters.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace kvd::jinja {
namespace {

constexpr std::array<std::string_view, 4> kOtherTemplates = {"extends", "include", "import",
                                                             "from"};
constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                        "True", "False", "None"};

std::string_view Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData: return "text";
    case TokenKind::kPrintBegin: return "{{";
    case TokenKind::kPrintEnd: return "}}";
    case TokenKind::kTagBegin: return "{%";
    case TokenKind::kTagEnd: return "%}";
    case TokenKind::kName: return token.text;
    case TokenKind::kString: return "a string";
    case TokenKind::kInteger: return "an integer";
    case TokenKind::kFloat: return "a float";
    case TokenKind::kEnd: return "the end of the template";
    default: return "an operator";
  }
}

}  // namespace

bool Parser::Skip(TokenKind kind) {
  if (!Sees(kind)) return false;
  Advance();
  return true;
}

bool Parser::SkipName(const char* name) {
  if (!SeesName(name)) return false;
  Advance();
  return true;
}

Status Parser::Expect(TokenKind kind, std::string_view what) {
  if (Skip(kind)) return {};
  return FailUnexpected(what);
}

Result<std::string> Parser::ExpectName() {
  if (!Sees(TokenKind::kName)) return FailUnexpected("a name");
  std::string name = current().text;
  Advance();
  return name;
}

std::unexpected<Error> Parser::FailUnexpected(std::string_view wanted) const {
  return FailAt(current().place, Code::kInvalidArgument, "expected ", wanted, ", got ",
                Describe(current()));
}

Result<Body> Parser::ParseTemplate() {
  KVD_TRY(Body body, ParseBody({}));
  return body;
}

// Parses statements up to one of the tags, whose name becomes the current token, or, without tags,
// up to the end of the template.
Result<Body> Parser::ParseBody(EndTags end_tags) {
  const Level level(&level_);
  if (level_ > kNestingMax) {
    return FailAt(current().place, Code::kTooLarge, "nested deeper than ", kNestingMax, " levels");
  }
  Body body;
  while (!Sees(TokenKind::kEnd)) {
    const Place place = current().place;
    if (Sees(TokenKind::kData)) {
      auto text = std::make_unique<TextStatement>(place);
      text->text = current().text;
      Advance();
      body.push_back(std::move(text));
    } else if (Skip(TokenKind::kPrintBegin)) {
      auto print = std::make_unique<Print>(place);
      KVD_TRY(print->value, ParseTuple());
      KVD_CHECK_OK(Expect(TokenKind::kPrintEnd, "}}"));
      body.push_back(std::move(print));
    } else {
      KVD_CHECK_OK(Expect(TokenKind::kTagBegin, "{%"));
      if (std::ranges::any_of(end_tags, [this](const char* tag) { return SeesName(tag); })) {
        return body;
      }
      KVD_CHECK_OK(ParseTag(&body));
    }
  }
  if (end_tags.size() == 0) return body;
  return FailAt(current().place, Code::kInvalidArgument,
                "unexpected end of the template, expected {% ", *(end_tags.end() - 1), " %}");
}

// Parses "%}", the body of a statement, and the name of its end tag.
Result<Body> Parser::ParseBodyToEnd(const char* end_tag) {
  Skip(TokenKind::kColon);
  KVD_CHECK_OK(Expect(TokenKind::kTagEnd, "%}"));
  KVD_TRY(Body body, ParseBody({end_tag}));
  Advance();
  return body;
}

// Parses what follows "{%", and "%}".
Status Parser::ParseTag(Body* body) {
  if (SeesName("print")) {
    KVD_CHECK_OK(ParsePrint(body));
  } else {
    KVD_TRY(StatementPtr statement, ParseStatement());
    body->push_back(std::move(statement));
  }
  return Expect(TokenKind::kTagEnd, "%}");
}

Result<StatementPtr> Parser::ParseStatement() {
  struct Rule {
    std::string_view tag;
    Result<StatementPtr> (Parser::*parse)();
  };
  static constexpr std::array<Rule, 10> kRules = {{
      {"set", &Parser::ParseSet},
      {"for", &Parser::ParseFor},
      {"if", &Parser::ParseIf},
      {"with", &Parser::ParseWith},
      {"macro", &Parser::ParseMacro},
      {"call", &Parser::ParseCallBlock},
      {"filter", &Parser::ParseFilterBlock},
      {"block", &Parser::ParseBlock},
      {"generation", &Parser::ParseGeneration},
      {"autoescape", &Parser::ParseAutoescape},
  }};
  const Token& token = current();
  if (token.kind != TokenKind::kName) return FailUnexpected("the name of a tag");
  const auto* const rule = std::ranges::find(kRules, std::string_view(token.text), &Rule::tag);
  if (rule != kRules.end()) return (this->*rule->parse)();
  if (token.text == "break" || token.text == "continue") {
    Advance();
    if (token.text == "break") return std::make_unique<Break>(token.place);
    return std::make_unique<Continue>(token.place);
  }
  if (std::ranges::find(kOtherTemplates, token.text) != kOtherTemplates.end()) {
    return FailAt(token.place, Code::kUnsupported, token.text,
                  ": a template cannot use other templates");
  }
  return FailAt(token.place, Code::kInvalidArgument, "unknown tag '", token.text, "'");
}

Result<StatementPtr> Parser::ParseSet() {
  const Place place = current().place;
  Advance();
  KVD_TRY(Target target, ParseAssignmentTarget());
  if (Skip(TokenKind::kAssign)) {
    auto assign = std::make_unique<Assign>(place);
    assign->target = std::move(target);
    KVD_TRY(assign->value, ParseTuple());
    return assign;
  }
  auto block = std::make_unique<AssignBlock>(place);
  block->target = std::move(target);
  KVD_TRY(block->filter, ParseFilters(nullptr, false));
  KVD_TRY(block->body, ParseBodyToEnd("endset"));
  return block;
}

Result<StatementPtr> Parser::ParseFor() {
  auto loop = std::make_unique<For>(current().place);
  Advance();
  KVD_TRY(loop->target, ParseTarget());
  loop->condition_target = loop->target;
  if (!SkipName("in")) return FailUnexpected("in");
  KVD_TRY(loop->iterable, ParseTuple(Conditionals::kExcluded));
  if (SkipName("if")) {
    KVD_TRY(loop->condition, ParseExpression());
  }
  loop->is_recursive = SkipName("recursive");
  Skip(TokenKind::kColon);
  KVD_CHECK_OK(Expect(TokenKind::kTagEnd, "%}"));
  KVD_TRY(loop->body, ParseBody({"endfor", "else"}));
  if (SkipName("endfor")) return loop;
  Advance();
  KVD_TRY(loop->otherwise, ParseBodyToEnd("endfor"));
  return loop;
}

Result<StatementPtr> Parser::ParseIf() {
  auto statement = std::make_unique<If>(current().place);
  do {
    Advance();
    If::Branch& branch = statement->branches.emplace_back();
    KVD_TRY(branch.test, ParseTuple(Conditionals::kExcluded));
    Skip(TokenKind::kColon);
    KVD_CHECK_OK(Expect(TokenKind::kTagEnd, "%}"));
    KVD_TRY(branch.body, ParseBody({"elif", "else", "endif"}));
  } while (SeesName("elif"));
  if (SkipName("endif")) return statement;
  Advance();
  KVD_TRY(statement->otherwise, ParseBodyToEnd("endif"));
  return statement;
}

Result<StatementPtr> Parser::ParseWith() {
  auto with = std::make_unique<With>(current().place);
  Advance();
  while (!Sees(TokenKind::kTagEnd)) {
    if (!with->targets.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    KVD_TRY(Target target, ParseTarget());
    KVD_CHECK_OK(Expect(TokenKind::kAssign, "="));
    KVD_TRY(ExpressionPtr value, ParseExpression());
    with->targets.push_back(std::move(target));
    with->values.push_back(std::move(value));
  }
  KVD_TRY(with->body, ParseBodyToEnd("endwith"));
  return with;
}

Status Parser::ParseSignature(MacroFunction* function) {
  KVD_CHECK_OK(Expect(TokenKind::kLeftParenthesis, "("));
  while (!Sees(TokenKind::kRightParenthesis)) {
    if (!function->parameters.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    KVD_TRY(Target parameter, ParseNameTarget());
    for (const Target& other : function->parameters) {
      if (other.name == parameter.name) {
        return FailAt(parameter.place, Code::kInvalidArgument, "duplicate parameter '",
                      parameter.name, "'");
      }
    }
    if (Skip(TokenKind::kAssign)) {
      KVD_TRY(ExpressionPtr value, ParseExpression());
      function->defaults.push_back(std::move(value));
    } else if (!function->defaults.empty()) {
      return FailAt(parameter.place, Code::kInvalidArgument,
                    "non-default argument follows default argument");
    }
    function->parameters.push_back(std::move(parameter));
  }
  Advance();
  return {};
}

Result<StatementPtr> Parser::ParseMacro() {
  auto macro = std::make_unique<Macro>(current().place);
  Advance();
  KVD_TRY(const Target name, ParseNameTarget());
  macro->name = name.name;
  KVD_CHECK_OK(ParseSignature(&macro->function));
  KVD_TRY(macro->function.body, ParseBodyToEnd("endmacro"));
  return macro;
}

Result<StatementPtr> Parser::ParseCallBlock() {
  auto block = std::make_unique<CallBlock>(current().place);
  Advance();
  if (Sees(TokenKind::kLeftParenthesis)) KVD_CHECK_OK(ParseSignature(&block->function));
  KVD_TRY(ExpressionPtr call, ParseExpression());
  if (call->kind != ExpressionKind::kCall) {
    return FailAt(block->place, Code::kInvalidArgument, "expected a call");
  }
  block->call.reset(static_cast<CallExpression*>(call.release()));
  KVD_TRY(block->function.body, ParseBodyToEnd("endcall"));
  return block;
}

Result<StatementPtr> Parser::ParseFilterBlock() {
  auto block = std::make_unique<FilterBlock>(current().place);
  Advance();
  KVD_TRY(block->filter, ParseFilters(nullptr, true));
  KVD_TRY(block->body, ParseBodyToEnd("endfilter"));
  return block;
}

Result<StatementPtr> Parser::ParseBlock() {
  auto block = std::make_unique<Block>(current().place);
  Advance();
  KVD_TRY(block->name, ExpectName());
  block->is_scoped = SkipName("scoped");
  block->is_required = SkipName("required");
  KVD_TRY(block->body, ParseBodyToEnd("endblock"));
  if (block->is_required) {
    const bool is_empty = std::ranges::all_of(block->body, [](const StatementPtr& statement) {
      return statement->kind == StatementKind::kText &&
             Trim(static_cast<const TextStatement&>(*statement).text).empty();
    });
    if (!is_empty) {
      return FailAt(block->place, Code::kInvalidArgument,
                    "required blocks can only contain comments or whitespace");
    }
  }
  SkipName(block->name.c_str());
  return block;
}

Result<StatementPtr> Parser::ParseGeneration() {
  auto block = std::make_unique<CallBlock>(current().place);
  Advance();
  KVD_TRY(block->function.body, ParseBodyToEnd("endgeneration"));
  return block;
}

Result<StatementPtr> Parser::ParseAutoescape() {
  auto scope = std::make_unique<ScopeStatement>(current().place);
  Advance();
  KVD_TRY(const ExpressionPtr is_on, ParseExpression());
  const bool is_off = is_on->kind == ExpressionKind::kConstant &&
                      static_cast<const Constant&>(*is_on).value.IsSameAs(Value::Bool(false));
  if (!is_off) {
    return FailAt(scope->place, Code::kUnsupported, "autoescape: only false is supported");
  }
  KVD_TRY(scope->body, ParseBodyToEnd("endautoescape"));
  return scope;
}

Status Parser::ParsePrint(Body* body) {
  const Place place = current().place;
  Advance();
  bool is_first = true;
  while (!Sees(TokenKind::kTagEnd)) {
    if (!std::exchange(is_first, false)) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    auto print = std::make_unique<Print>(place);
    KVD_TRY(print->value, ParseExpression());
    body->push_back(std::move(print));
  }
  return {};
}

// {% set name.attribute = ... %} or any other target.
Result<Target> Parser::ParseAssignmentTarget() {
  if (next().kind != TokenKind::kDot) return ParseTarget();
  Target target;
  target.kind = Target::Kind::kNamespace;
  target.place = current().place;
  KVD_TRY(target.name, ExpectName());
  Advance();
  KVD_TRY(std::string attribute, ExpectName());
  target.attribute = Value::String(std::move(attribute));
  return target;
}

Result<Target> Parser::ParseNameTarget() {
  Target target;
  target.place = current().place;
  KVD_TRY(target.name, ExpectName());
  if (std::ranges::find(kConstants, target.name) != kConstants.end()) {
    return FailAt(target.place, Code::kInvalidArgument, "can't assign to '", target.name, "'");
  }
  return target;
}

// A name, or names and tuples in brackets, separated by commas. As in Jinja2, a comma at the end is
// one of a tuple in brackets only: in "for a, in b" the second name is `in`.
Result<Target> Parser::ParseTarget() {
  const Level level(&level_);
  KVD_CHECK_OK(CheckLevel());
  Target tuple;
  tuple.kind = Target::Kind::kTuple;
  tuple.place = current().place;
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) KVD_CHECK_OK(Expect(TokenKind::kComma, ","));
    if (IsTupleEnd()) break;
    if (Skip(TokenKind::kLeftParenthesis)) {
      KVD_TRY(Target inner, ParseTarget());
      KVD_CHECK_OK(Expect(TokenKind::kRightParenthesis, ")"));
      tuple.items.push_back(std::move(inner));
    } else {
      KVD_TRY(Target name, ParseNameTarget());
      tuple.items.push_back(std::move(name));
    }
    if (!Sees(TokenKind::kComma)) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (tuple.items.empty()) return FailUnexpected("a name");
  return Target(std::move(tuple.items[0]));
}

}  // namespace kvd::jinja
