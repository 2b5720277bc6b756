// Merging renames references until no two bodies are equal; each pass is linear in the rules' size.
#include "text/schema/print_rules.h"

#include <numeric>
#include <unordered_map>
#include <utility>

namespace kvd::schema {
namespace {

using ExpressionKind = Expression::Kind;

constexpr int kPassesMax = 8;

class Printer {
 public:
  explicit Printer(const std::vector<PrintedRule>& rules) : rules_(rules) {}

  // Parentheses are needed around a choice in a sequence and around all but atoms in a repetition.
  void Append(const Expression& expression, std::string& text) const {
    switch (expression.kind) {
      case ExpressionKind::kLiteral: AppendLiteral(expression.text, text); break;
      case ExpressionKind::kClass: text += expression.text; break;
      case ExpressionKind::kRule: text += rules_[expression.rule].name; break;
      case ExpressionKind::kSequence:
        if (expression.parts.empty()) text += "\"\"";
        AppendParts(expression, " ", text);
        break;
      case ExpressionKind::kChoice: AppendParts(expression, " | ", text); break;
      case ExpressionKind::kRepeat: AppendRepeat(expression, text); break;
    }
  }

 private:
  void AppendParts(const Expression& expression, std::string_view separator,
                   std::string& text) const {
    bool is_first = true;
    for (const Expression& part : expression.parts) {
      if (!is_first) text += separator;
      is_first = false;
      const bool is_grouped =
          expression.kind == ExpressionKind::kSequence && part.kind == ExpressionKind::kChoice;
      if (is_grouped) text += "(";
      Append(part, text);
      if (is_grouped) text += ")";
    }
  }

  void AppendRepeat(const Expression& repeat, std::string& text) const {
    const Expression& part = repeat.parts[0];
    const bool is_atom = part.kind == ExpressionKind::kRule ||
                         part.kind == ExpressionKind::kClass ||
                         part.kind == ExpressionKind::kLiteral;
    if (!is_atom) text += "(";
    Append(part, text);
    if (!is_atom) text += ")";
    if (repeat.min == 0 && repeat.max == 1) {
      text += "?";
    } else if (!repeat.max && repeat.min < 2) {
      text += repeat.min == 0 ? "*" : "+";
    } else {
      text += Concat("{", repeat.min);
      if (repeat.max != repeat.min) text += ",";
      if (repeat.max && repeat.max != repeat.min) text += Concat(*repeat.max);
      text += "}";
    }
  }

  const std::vector<PrintedRule>& rules_;
};

void Rename(Expression& expression, const std::vector<RuleId>& targets) {
  if (expression.kind == ExpressionKind::kRule) expression.rule = targets[expression.rule];
  for (Expression& part : expression.parts) Rename(part, targets);
}

void CollectUses(const Expression& expression, std::vector<RuleId>& uses) {
  if (expression.kind == ExpressionKind::kRule) uses.push_back(expression.rule);
  for (const Expression& part : expression.parts) CollectUses(part, uses);
}

}  // namespace

void MergeEqualRules(std::vector<PrintedRule>& rules) {
  std::vector<RuleId> targets(rules.size());
  for (int pass = 0; pass < kPassesMax; ++pass) {
    std::iota(targets.begin(), targets.end(), RuleId{0});
    std::unordered_map<std::string, RuleId> bodies;
    bool has_changed = false;
    const Printer printer(rules);
    for (RuleId i = 0; i < rules.size(); ++i) {
      if (rules[i].is_text) continue;
      const Expression& expression = rules[i].expression;
      std::string body;
      printer.Append(expression, body);
      const RuleId equal = bodies.try_emplace(std::move(body), i).first->second;
      targets[i] = expression.kind == ExpressionKind::kRule ? expression.rule : equal;
    }
    for (RuleId i = 0; i < rules.size(); ++i) {
      // A chain of rules that are only references; one that never ends has no text at all.
      for (std::size_t step = 0; step < rules.size() && targets[targets[i]] != targets[i]; ++step)
        targets[i] = targets[targets[i]];
    }
    for (PrintedRule& rule : rules) {
      std::vector<RuleId> before;
      std::vector<RuleId> after;
      CollectUses(rule.expression, before);
      Rename(rule.expression, targets);
      CollectUses(rule.expression, after);
      has_changed = has_changed || before != after;
    }
    if (!has_changed) return;
  }
}

Result<std::string> PrintRules(const std::vector<PrintedRule>& rules, std::size_t rules_max,
                               std::size_t text_bytes_max) {
  std::vector<bool> is_used(rules.size());
  std::vector<RuleId> order;
  const auto use = [&](RuleId rule) {
    if (!is_used[rule]) order.push_back(rule);
    is_used[rule] = true;
  };
  for (RuleId i = 0; i < rules.size(); ++i)
    if (rules[i].is_kept) use(i);
  const Printer printer(rules);
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const PrintedRule& rule = rules[order[i]];
    std::vector<RuleId> uses = rule.uses;
    CollectUses(rule.expression, uses);
    for (const RuleId used : uses) use(used);
    text += rule.name + " ::= ";
    if (rule.is_text) {
      text += rule.text;
    } else {
      printer.Append(rule.expression, text);
    }
    text += "\n";
    if (order.size() > rules_max)
      return Fail(Code::kUnsupported, "a grammar of more than ", rules_max, " rules");
    if (text.size() > text_bytes_max)
      return Fail(Code::kUnsupported, "a grammar of more than ", text_bytes_max, " bytes");
  }
  return text;
}

}  // namespace kvd::schema
