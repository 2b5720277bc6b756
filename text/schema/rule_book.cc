// The bodies of the shared rules are those of RFC 8259, with limits on digits and whitespace so
// that an answer ends: unlimited digits or spaces are what a model repeats when it is lost.
#include "text/schema/rule_book.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/schema/expression.h"

namespace kvd::schema {
namespace {

struct SharedText {
  SharedRule rule;
  std::string_view name;
  std::string_view text;
};

using enum SharedRule;

constexpr std::array<SharedText, 11> kSharedTexts = {{
    {kSpace, "space", R"(" "? | "\n"{1,2} [ \t]{0,20})"},
    {kValue, "value", "object | array | string | number | boolean | null"},
    {kObject, "object",
     R"("{" space (string space ":" space value ("," space string space ":" space value)* space)? "}")"},
    {kArray, "array", R"("[" space (value ("," space value)* space)? "]")"},
    {kString, "string", R"("\"" char* "\"")"},
    {kNumber, "number", R"("-"? whole ("." [0-9]{1,16})? ([eE] [+\x2D]? [0-9]{1,2})?)"},
    {kInteger, "integer", R"("-"? whole)"},
    {kBoolean, "boolean", R"("true" | "false")"},
    {kNull, "null", R"("null")"},
    {kCharacter, "char",
     R"([\x20!#-\[\]-~\x80-\uD7FF\uE000-\U0010FFFF] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CefEF])"
     R"( [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2} | [dD] [89abAB] [0-9a-fA-F]{2} "\\u" [dD])"
     R"( [c-fC-F] [0-9a-fA-F]{2})))"},
    {kWhole, "whole", R"("0" | [1-9] [0-9]{0,15})"},
}};

// The shared rules that a shared rule's text names.
std::vector<SharedRule> UsesOf(SharedRule rule) {
  switch (rule) {
    case kValue: return {kObject, kArray, kString, kNumber, kBoolean, kNull};
    case kObject: return {kSpace, kString, kValue};
    case kArray: return {kSpace, kValue};
    case kString: return {kCharacter};
    case kNumber:
    case kInteger: return {kWhole};
    default: return {};
  }
}

bool IsNameCharacter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '-';
}

constexpr std::size_t kHintBytesMax = 48;

}  // namespace

RuleId RuleBook::Add(std::string name) {
  const auto id = static_cast<RuleId>(rules_.size());
  ids_.emplace(name, id);
  rules_.emplace_back().name = std::move(name);
  return id;
}

RuleId RuleBook::Declare(std::string_view hint) {
  // A name starts with a letter.
  const bool has_letter = !hint.empty() && (hint[0] | 32) >= 'a' && (hint[0] | 32) <= 'z';
  std::string name;
  if (!has_letter) name.push_back('r');
  for (const char byte : hint.substr(0, kHintBytesMax)) name += IsNameCharacter(byte) ? byte : '-';
  const auto is_taken = [&](std::string_view candidate) {
    return ids_.contains(std::string(candidate)) ||
           std::ranges::any_of(kSharedTexts,
                               [&](const SharedText& shared) { return shared.name == candidate; });
  };
  if (!is_taken(name)) return Add(std::move(name));
  std::uint32_t& number = numbers_[name];
  if (number == 0) number = 1;
  while (is_taken(Concat(name, "-", ++number))) {
  }
  return Add(Concat(name, "-", number));
}

Result<RuleId> RuleBook::DeclareExactly(std::string_view name) {
  if (name.empty() || !std::ranges::all_of(name, IsNameCharacter))
    return Fail(Code::kInvalidArgument, "a rule's name has letters, digits and hyphens: \"", name,
                "\"");
  const bool is_shared = std::ranges::any_of(
      kSharedTexts, [&](const SharedText& shared) { return shared.name == name; });
  if (is_shared || ids_.contains(std::string(name)))
    return Fail(Code::kExists, "the rule \"", name, "\" exists already");
  return Add(std::string(name));
}

void RuleBook::Define(RuleId rule, GrammarExpression expression) {
  rules_[rule].expression = std::move(expression);
}

void RuleBook::DefineText(RuleId rule, std::string text) {
  rules_[rule].text = std::move(text);
  rules_[rule].is_text = true;
}

GrammarExpression RuleBook::Shared(SharedRule rule) {
  const SharedText& shared = kSharedTexts[static_cast<std::size_t>(rule)];
  const auto place = ids_.find(std::string(shared.name));
  if (place != ids_.end()) return Reference(place->second);
  const RuleId id = Add(std::string(shared.name));
  DefineText(id, std::string(shared.text));
  for (const SharedRule used : UsesOf(rule)) Shared(used);
  return Reference(id);
}

bool RuleBook::IsProductive(const GrammarExpression& expression) const {
  const auto is_productive = [this](const GrammarExpression& part) { return IsProductive(part); };
  switch (expression.kind) {
    case GrammarExpression::Kind::kLiteral:
    case GrammarExpression::Kind::kClass: return true;
    case GrammarExpression::Kind::kRule: return rules_[expression.rule].is_productive;
    case GrammarExpression::Kind::kSequence:
      return std::ranges::all_of(expression.parts, is_productive);
    case GrammarExpression::Kind::kChoice:
      return std::ranges::any_of(expression.parts, is_productive);
    case GrammarExpression::Kind::kRepeat:
      return expression.min == 0 || IsProductive(expression.parts[0]);
  }
  return false;
}

void RuleBook::FindProductive() {
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    // Rules mostly use later ones, so the last one comes first.
    for (std::size_t i = rules_.size(); i-- > 0;) {
      Rule& rule = rules_[i];
      if (rule.is_productive || !(rule.is_text || IsProductive(rule.expression))) continue;
      rule.is_productive = true;
      has_changed = true;
    }
  }
}

bool RuleBook::IsProductive(RuleId rule) {
  FindProductive();
  return rules_[rule].is_productive;
}

const RuleId* RuleBook::Remembered(const void* key) const {
  const auto place = remembered_.find(key);
  return place == remembered_.end() ? nullptr : &place->second;
}

void RuleBook::Truncate(std::size_t rule_count) {
  std::erase_if(remembered_, [&](const auto& rule) { return rule.second >= rule_count; });
  while (rules_.size() > rule_count) {
    ids_.erase(rules_.back().name);
    rules_.pop_back();
  }
}

GrammarExpression RuleBook::Pruned(const GrammarExpression& expression) const {
  if (!IsProductive(expression)) return Nothing();
  if (expression.parts.empty()) return expression;
  std::vector<GrammarExpression> parts;
  for (const GrammarExpression& part : expression.parts) parts.push_back(Pruned(part));
  switch (expression.kind) {
    case GrammarExpression::Kind::kSequence: return Sequence(std::move(parts));
    case GrammarExpression::Kind::kChoice: return Choice(std::move(parts));
    default: return Repeat(std::move(parts[0]), expression.min, expression.max);
  }
}

Result<std::string> RuleBook::Print() {
  FindProductive();
  std::vector<PrintedRule> printed;
  for (const Rule& rule : rules_) {
    PrintedRule& target = printed.emplace_back();
    target.name = rule.name;
    target.is_kept = rule.is_kept;
    target.text = rule.text;
    target.is_text = rule.is_text;
    if (!rule.is_text) target.expression = Pruned(rule.expression);
  }
  for (std::size_t i = 0; i < kSharedTexts.size(); ++i) {
    const auto place = ids_.find(std::string(kSharedTexts[i].name));
    if (place == ids_.end()) continue;
    for (const SharedRule used : UsesOf(kSharedTexts[i].rule))
      printed[place->second].uses.push_back(
          ids_.at(std::string(kSharedTexts[static_cast<std::size_t>(used)].name)));
  }
  MergeEqualRules(printed);
  return PrintRules(printed, rules_max_, text_bytes_max_);
}

}  // namespace kvd::schema
