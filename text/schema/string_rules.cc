// One expression without a further constraint is written as it is. Otherwise each state of the
// automaton becomes a rule, or a group where only one edge leads to it.
#include "text/schema/string_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace kvd::schema {
namespace {

constexpr int kGroupDepthMax = 6;  // of states that are written as groups
constexpr std::uint64_t kRepetitionsMax = 1 << 20;

// Characters with an escape of two characters: the character, and the letter after the backslash.
constexpr std::pair<std::uint32_t, char> kShortEscapes[] = {
    {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};

CodePointSet EscapedCharacters() { return CodePointSet::Of({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}); }

// "\u0000" to "\u001F" without those that have a short escape, by their second last digit.
void AppendControls(const CodePointSet& set, std::vector<GrammarExpression>& alternatives) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (std::uint32_t high = 0; high < 2; ++high) {
    CodePointSet digits;
    for (std::uint32_t low = 0; low < 16; ++low) {
      const std::uint32_t code_point = high * 16 + low;
      const bool is_short = std::ranges::any_of(
          kShortEscapes, [&](const auto& escape) { return escape.first == code_point; });
      if (is_short || !set.Contains(code_point)) continue;
      const auto digit = static_cast<unsigned char>(kDigits[low]);
      digits.Add(digit, digit);
    }
    if (!digits.empty())
      alternatives.push_back(Sequence({Literal(high == 0 ? "\\u000" : "\\u001"), ClassOf(digits)}));
  }
}

GrammarExpression RegexText(const RegexNode& node, RuleBook& book) {
  std::vector<GrammarExpression> parts;
  switch (node.kind) {
    case RegexNode::Kind::kSet: return CharacterText(node.set, book);
    case RegexNode::Kind::kRepeat:
      return Repeat(RegexText(node.children[0], book), node.min, node.max);
    default: break;
  }
  for (const RegexNode& child : node.children) parts.push_back(RegexText(child, book));
  return node.kind == RegexNode::Kind::kAlternation ? Choice(std::move(parts))
                                                    : Sequence(std::move(parts));
}

class AutomatonText {
 public:
  AutomatonText(const Automaton& automaton, std::string_view hint, RuleBook& book)
      : automaton_(automaton),
        hint_(hint),
        book_(book),
        source_counts_(automaton.states.size()),
        rules_(automaton.states.size()) {
    for (std::uint32_t i = 0; i < automaton.states.size(); ++i) {
      for (const Automaton::Edge& edge : automaton.states[i].edges)
        if (edge.target != i) ++source_counts_[edge.target];
    }
  }

  // The texts from the start state on. Rules wait in `open_`, so the calls nest only for groups.
  GrammarExpression Write() {
    GrammarExpression start = StateText(0, 0);
    while (!open_.empty()) {
      const std::uint32_t state = open_.back();
      open_.pop_back();
      book_.Define(*rules_[state], StateText(state, 0));
    }
    return start;
  }

 private:
  // Any number of characters that lead back to the state, then an edge to another one or the end.
  GrammarExpression StateText(std::uint32_t number, int depth) {
    const Automaton::State& state = automaton_.states[number];
    GrammarExpression loop;
    std::vector<GrammarExpression> ways;
    for (const Automaton::Edge& edge : state.edges) {
      if (edge.target == number) {
        loop = Repeat(CharacterText(edge.set, book_), 0, std::nullopt);
        continue;
      }
      ways.push_back(Sequence({CharacterText(edge.set, book_), TargetText(edge.target, depth)}));
    }
    if (state.is_accepting) ways.emplace_back();
    return Sequence({std::move(loop), Choice(std::move(ways))});
  }

  GrammarExpression TargetText(std::uint32_t target, int depth) {
    const Automaton::State& state = automaton_.states[target];
    if (state.edges.empty()) return {};
    const bool is_loop = state.edges.size() == 1 && state.edges[0].target == target;
    if (is_loop || (target != 0 && source_counts_[target] == 1 && depth < kGroupDepthMax))
      return StateText(target, depth + 1);
    if (!rules_[target]) {
      rules_[target] = book_.Declare(Concat(hint_, "-text"));
      open_.push_back(target);
    }
    return Reference(*rules_[target]);
  }

  const Automaton& automaton_;
  std::string_view hint_;
  RuleBook& book_;
  std::vector<std::uint32_t> source_counts_;  // edges from other states
  std::vector<std::optional<RuleId>> rules_;
  std::vector<std::uint32_t> open_;
};

GrammarExpression QuotedText(GrammarExpression text) {
  return Sequence({Literal("\""), std::move(text), Literal("\"")});
}

}  // namespace

GrammarExpression CharacterText(const CodePointSet& set, RuleBook& book) {
  if (set == CodePointSet::All()) return book.Shared(SharedRule::kCharacter);
  const CodePointSet escaped = EscapedCharacters();
  std::vector<GrammarExpression> alternatives;
  const CodePointSet raw = set.Intersection(escaped.Complement());
  if (!raw.empty()) alternatives.push_back(ClassOf(raw));
  CodePointSet letters;
  for (const auto& [code_point, letter] : kShortEscapes) {
    const auto byte = static_cast<unsigned char>(letter);
    if (set.Contains(code_point)) letters.Add(byte, byte);
  }
  if (!letters.empty()) alternatives.push_back(Sequence({Literal("\\"), ClassOf(letters)}));
  AppendControls(set, alternatives);
  return Choice(std::move(alternatives));
}

std::string QuotedText(std::string_view bytes) {
  std::string text = "\"";
  for (const char byte : bytes) {
    const auto code_point = static_cast<std::uint32_t>(static_cast<unsigned char>(byte));
    const auto* const escape =
        std::ranges::find(kShortEscapes, code_point, &std::pair<std::uint32_t, char>::first);
    if (escape != std::end(kShortEscapes)) {
      (text += '\\') += escape->second;
    } else if (code_point < 0x20) {
      text += code_point < 0x10 ? "\\u000" : "\\u001";
      text += "0123456789abcdef"[code_point % 16];
    } else {
      text += byte;
    }
  }
  return text + '"';
}

GrammarExpression StringOfLength(std::uint64_t length_min, std::optional<std::uint64_t> length_max,
                                 RuleBook& book) {
  if (length_min == 0 && !length_max) return book.Shared(SharedRule::kString);
  if (length_max) length_max = std::min(*length_max, std::max(length_min, kRepetitionsMax));
  return QuotedText(Repeat(book.Shared(SharedRule::kCharacter), length_min, length_max));
}

Result<GrammarExpression> StringOf(const TextConstraint& constraint, std::string_view hint,
                                   RuleBook& book, const AutomatonLimits& limits) {
  if (constraint.length_min > kRepetitionsMax)
    return Fail(Code::kUnsupported, "minLength: more than ", kRepetitionsMax);
  if (constraint.excluded.empty() && constraint.required.empty())
    return StringOfLength(constraint.length_min, constraint.length_max, book);
  if (constraint.excluded.empty() && constraint.required.size() == 1) {
    const RegexNode& node = *constraint.required[0];
    const auto longest = LengthMax(node);
    const bool has_length =
        LengthMin(node) >= constraint.length_min &&
        (!constraint.length_max || (longest && *longest <= *constraint.length_max));
    if (has_length) return QuotedText(RegexText(node, book));
  }
  KVD_TRY(const Automaton automaton, BuildAutomaton(constraint, limits));
  if (automaton.states.empty()) return Nothing();
  return QuotedText(AutomatonText(automaton, hint, book).Write());
}

}  // namespace kvd::schema
