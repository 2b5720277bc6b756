#include "text/schema/expression.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"

namespace kvd::schema {

// ---- expression
// Only the makers create expressions, so no expression has a sequence inside a sequence or an
// empty alternative: "a or nothing" is a repetition of 0 to 1.

namespace {

using ExpressionKind = GrammarExpression::Kind;

void AppendHex(std::uint32_t number, int digit_count, std::string& text) {
  for (int shift = 4 * (digit_count - 1); shift >= 0; shift -= 4)
    text += "0123456789ABCDEF"[number >> shift & 15];
}

void AppendClassCharacter(std::uint32_t code_point, std::string& text) {
  switch (code_point) {
    case '\n': text += "\\n"; return;
    case '\r': text += "\\r"; return;
    case '\t': text += "\\t"; return;
    case '\\':
    case '[':
    case ']': (text += '\\') += static_cast<char>(code_point); return;
    default: break;
  }
  const bool is_plain = code_point > ' ' && code_point < 0x7F && code_point != '-' &&
                        code_point != '^' && code_point != '"';
  if (is_plain || code_point == ' ') {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x80) {
    text += "\\x";
    AppendHex(code_point, 2, text);
  } else if (code_point < 0x10000) {
    text += "\\u";
    AppendHex(code_point, 4, text);
  } else {
    text += "\\U";
    AppendHex(code_point, 8, text);
  }
}

}  // namespace

GrammarExpression Literal(std::string bytes) {
  if (bytes.empty()) return {};
  GrammarExpression expression;
  expression.kind = ExpressionKind::kLiteral;
  expression.text = std::move(bytes);
  return expression;
}

GrammarExpression ClassOf(const CodePointSet& set) {
  const auto& ranges = set.ranges();
  if (ranges.size() == 1 && ranges[0].first == ranges[0].last) {
    std::string character;
    AppendUtf8(ranges[0].first, character);
    return Literal(std::move(character));
  }
  GrammarExpression expression;
  expression.kind = ExpressionKind::kClass;
  expression.text = "[";
  for (const auto& [first, last] : ranges) {
    AppendClassCharacter(first, expression.text);
    if (last > first + 1) expression.text += '-';
    if (last > first) AppendClassCharacter(last, expression.text);
  }
  expression.text += "]";
  return expression;
}

GrammarExpression Reference(RuleId rule) {
  GrammarExpression expression;
  expression.kind = ExpressionKind::kRule;
  expression.rule = rule;
  return expression;
}

GrammarExpression Nothing() {
  GrammarExpression expression;
  expression.kind = ExpressionKind::kChoice;
  return expression;
}

GrammarExpression Sequence(std::vector<GrammarExpression> parts) {
  GrammarExpression sequence;
  const auto append = [&](GrammarExpression part) {
    const bool joins = part.kind == ExpressionKind::kLiteral && !sequence.parts.empty() &&
                       sequence.parts.back().kind == ExpressionKind::kLiteral;
    if (joins) {
      sequence.parts.back().text += part.text;
    } else {
      sequence.parts.push_back(std::move(part));
    }
  };
  for (GrammarExpression& part : parts) {
    if (part.is_nothing()) return Nothing();
    if (part.kind != ExpressionKind::kSequence) {
      append(std::move(part));
      continue;
    }
    for (GrammarExpression& inner : part.parts) append(std::move(inner));
  }
  if (sequence.parts.size() != 1) return sequence;
  GrammarExpression only = std::move(sequence.parts[0]);
  return only;
}

GrammarExpression Choice(std::vector<GrammarExpression> parts) {
  GrammarExpression choice = Nothing();
  bool has_empty = false;
  std::unordered_set<std::string> literals;
  const auto append = [&](GrammarExpression part) {
    if (part.is_empty()) {
      has_empty = true;
    } else if (part.kind == ExpressionKind::kLiteral) {
      if (literals.insert(part.text).second) choice.parts.push_back(std::move(part));
    } else if (part.kind != ExpressionKind::kRule ||
               std::ranges::find(choice.parts, part) == choice.parts.end()) {
      choice.parts.push_back(std::move(part));
    }
  };
  for (GrammarExpression& part : parts) {
    if (part.kind != ExpressionKind::kChoice) {
      append(std::move(part));
      continue;
    }
    for (GrammarExpression& inner : part.parts) append(std::move(inner));
  }
  if (choice.parts.size() == 1) choice = GrammarExpression(std::move(choice.parts[0]));
  if (!has_empty) return choice;
  return choice.is_nothing() ? GrammarExpression() : Optional(std::move(choice));
}

GrammarExpression Repeat(GrammarExpression part, std::uint64_t min,
                         std::optional<std::uint64_t> max) {
  if (max && *max < min) return Nothing();
  if (max == 0 || part.is_empty()) return {};
  if (part.is_nothing()) return min == 0 ? GrammarExpression() : Nothing();
  if (min == 1 && max == 1) return part;
  GrammarExpression repeat;
  repeat.kind = ExpressionKind::kRepeat;
  repeat.min = min;
  repeat.max = max;
  repeat.parts.push_back(std::move(part));
  return repeat;
}

GrammarExpression Optional(GrammarExpression part) {
  if (part.kind == ExpressionKind::kRepeat && part.min == 0) return part;
  return Repeat(std::move(part), 0, 1);
}

void AppendLiteral(std::string_view bytes, std::string& text) {
  text += '"';
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      (text += '\\') += byte;
    } else if (byte == '\n') {
      text += "\\n";
    } else if (byte == '\r') {
      text += "\\r";
    } else if (byte == '\t') {
      text += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      text += "\\x";
      AppendHex(code, 2, text);
    } else {
      text += byte;
    }
  }
  text += '"';
}

// ---- print rules
// Merging renames references until no two bodies are equal; each pass is linear in the rules' size.

namespace {

using ExpressionKind = GrammarExpression::Kind;

constexpr int kPassesMax = 8;

class Printer {
 public:
  explicit Printer(const std::vector<PrintedRule>& rules) : rules_(rules) {}

  // Parentheses are needed around a choice in a sequence and around all but atoms in a repetition.
  void Append(const GrammarExpression& expression, std::string& text) const {
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
  void AppendParts(const GrammarExpression& expression, std::string_view separator,
                   std::string& text) const {
    bool is_first = true;
    for (const GrammarExpression& part : expression.parts) {
      if (!is_first) text += separator;
      is_first = false;
      const bool is_grouped =
          expression.kind == ExpressionKind::kSequence && part.kind == ExpressionKind::kChoice;
      if (is_grouped) text += "(";
      Append(part, text);
      if (is_grouped) text += ")";
    }
  }

  void AppendRepeat(const GrammarExpression& repeat, std::string& text) const {
    const GrammarExpression& part = repeat.parts[0];
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

void Rename(GrammarExpression& expression, const std::vector<RuleId>& targets) {
  if (expression.kind == ExpressionKind::kRule) expression.rule = targets[expression.rule];
  for (GrammarExpression& part : expression.parts) Rename(part, targets);
}

void CollectUses(const GrammarExpression& expression, std::vector<RuleId>& uses) {
  if (expression.kind == ExpressionKind::kRule) uses.push_back(expression.rule);
  for (const GrammarExpression& part : expression.parts) CollectUses(part, uses);
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
      const GrammarExpression& expression = rules[i].expression;
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
